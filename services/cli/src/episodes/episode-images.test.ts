// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { episodeHtml } from "./episode-html.ts";
import { COLUMNS, turnsOf } from "./episode-rows.ts";
import { episodeHead, episodeText } from "./episode-text.ts";

const digest = "3f".repeat(32);
const options = { tokens: false, paint: (_style: string, text: string) => text };

function episodeWith(step: { readonly observation: string; readonly imageDigests: string[] }, mediaType = "image/png") {
  const images = [{ digest, mediaType, data: new Uint8Array(2048) }];
  return create(EpisodeSchema, { id: "job/g0/s0", trajectories: [{ role: "agent", steps: [step] }], images });
}

const page = (episode: ReturnType<typeof episodeWith>) => episodeHtml(episode, episodeHead(episode, options));

describe("an episode with pictures", () => {
  const episode = episodeWith({ observation: "<b>a page</b>", imageDigests: [digest] });

  it("names them in text, beside the observation", () => {
    expect(episodeText(episode, options)).toContain("  images      [image sha256:3f3f3f3f3f3f… 2.0 KiB]");
  });

  it("shows them in a page, where no text is markup", () => {
    expect(page(episode)).toContain(`<img src="data:image/png;base64,AAAA`);
    expect(page(episode)).toContain("&lt;b&gt;a page&lt;/b&gt;");
  });

  it("shows none of a type that is no picture, and says what the record lacks", () => {
    expect(page(episodeWith({ observation: "", imageDigests: [digest] }, "text/html"))).not.toContain("<img");
    expect(page(episodeWith({ observation: "", imageDigests: ["ab"] }))).toContain(
      "[image sha256:ab, not in the record]",
    );
  });

  it("has their digests in rows", () => {
    const [turn] = turnsOf({ episode });
    const column = COLUMNS.find(({ name }) => name === "image_digests");
    expect(turn && column?.cell(turn)).toBe(digest);
  });
});
