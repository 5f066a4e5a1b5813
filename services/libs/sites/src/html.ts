// SPDX-License-Identifier: Apache-2.0
/** HTML that is safe to put into a page. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Part = Html | string | number | readonly Part[];

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Text that is put in is escaped; HTML and lists of it are not. */
export function html(texts: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(texts.map((text, i) => text + (i < parts.length ? escaped(parts[i] as Part) : "")).join(""));
}

function escaped(part: Part): string {
  if (part instanceof Html) return part.text;
  if (typeof part === "object") return part.map(escaped).join("");
  return String(part).replace(/[&<>"]/gu, (sign) => ESCAPES[sign] as string);
}

export interface Layout {
  readonly site: string;
  readonly title: string;
  /** Links at the top: address and text. */
  readonly links: readonly (readonly [href: string, text: string])[];
}

export function page({ site, title, links }: Layout, body: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title} - ${site}</title>
        <link rel="icon" href="data:," />
      </head>
      <body>
        <nav>${links.map(([href, text]) => html`<a href="${href}">${text}</a> `)}</nav>
        <main>
          <h1>${title}</h1>
          ${body}
        </main>
      </body>
    </html>`.text;
}
