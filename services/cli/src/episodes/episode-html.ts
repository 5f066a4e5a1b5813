// SPDX-License-Identifier: Apache-2.0
/** An episode as one page that needs nothing else, its pictures in it. */
import type { Episode, Image, Step, Trajectory } from "@whetstone/proto/types/v1/types";

import { Html, html } from "../terminal/html.ts";
import { formatImage, formatNumber } from "../terminal/format.ts";

const STYLE = `
  :root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
  main { max-width: 70rem; margin: auto; padding: 1rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow: auto; padding: 0.5rem; border: 1px solid #8886; }
  img { max-width: 100%; border: 1px solid #8886; }
  h3 { margin-bottom: 0; }
  dt { font-weight: 600; }`;

/** What may be in an address of an image without asking anybody. */
const SHOWN_TYPES = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);

/** @param lines  the episode's head, as text */
export function episodeHtml(episode: Episode, lines: readonly string[]): string {
  const images = new Map(episode.images.map((image) => [image.digest, image]));
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta
          http-equiv="Content-Security-Policy"
          content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        />
        <title>${episode.id}</title>
        <style>
          ${new Html(STYLE)}
        </style>
      </head>
      <body>
        <main>
          <h1>${episode.id}</h1>
          <pre>${lines.join("\n")}</pre>
          ${episode.trajectories.map((trajectory) => trajectoryHtml(trajectory, images))}
        </main>
      </body>
    </html> `.text;
}

function trajectoryHtml(
  { role, reward, steps, finalObservation }: Trajectory,
  images: ReadonlyMap<string, Image>,
): Html {
  return html`<h2>${role}: reward ${formatNumber(reward)}</h2>
    ${steps.map((step, index) => stepHtml(step, index, images))} ${part("At the end", finalObservation)}`;
}

function stepHtml(step: Step, index: number, images: ReadonlyMap<string, Image>): Html {
  const { observation, imageDigests, thought, modelResponse, action, reward, done } = step;
  return html`<h3>Turn ${index + 1}</h3>
    ${part("Observation", observation)} ${imageDigests.map((digest) => imageHtml(images.get(digest), digest))}
    ${part("Thought", thought)} ${part("Answer", modelResponse)} ${part("Action", action)}
    <p>Reward ${formatNumber(reward)}${done ? ", done" : ""}</p>`;
}

function part(label: string, text: string): Html {
  if (text === "") return new Html("");
  return html`<dl>
    <dt>${label}</dt>
    <dd><pre>${text}</pre></dd>
  </dl>`;
}

function imageHtml(image: Image | undefined, digest: string): Html {
  if (image === undefined) return html`<p>[image sha256:${digest}, not in the record]</p>`;
  if (!SHOWN_TYPES.has(image.mediaType)) return html`<p>${formatImage(image)}</p>`;
  const source = `data:${image.mediaType};base64,${Buffer.from(image.data).toString("base64")}`;
  return html`<figure>
    <img src="${source}" alt="what the agent saw" />
    <figcaption>${formatImage(image)}</figcaption>
  </figure>`;
}
