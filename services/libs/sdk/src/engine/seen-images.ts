// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "../failure.ts";
import { type ImagePart, MAX_EPISODE_IMAGE_BYTES, type SeenImage, withDigest } from "../images.ts";

const NONE: readonly SeenImage[] = [];

/** The pictures that one play was shown, each kept once, within the bound of an episode. */
export class SeenImages {
  readonly #byDigest = new Map<string, SeenImage>();
  #bytes = 0;
  #newest = NONE;

  /** Those beside the newest observation. */
  get newest(): readonly SeenImage[] {
    return this.#newest;
  }

  /** @throws EpisodeError TASK beyond the bound: the same task would pass it again */
  add(images: readonly ImagePart[] = []): void {
    this.#newest = images.length === 0 ? NONE : images.map((image) => this.#keep(withDigest(image)));
  }

  #keep(image: SeenImage): SeenImage {
    const known = this.#byDigest.get(image.digest);
    if (known !== undefined) return known;
    this.#bytes += image.data.length;
    if (this.#bytes > MAX_EPISODE_IMAGE_BYTES)
      throw new EpisodeError(
        "TASK",
        `the pictures of this episode have more than ${MAX_EPISODE_IMAGE_BYTES} bytes: ask for smaller ones, or for fewer steps`,
      );
    this.#byDigest.set(image.digest, image);
    return image;
  }
}
