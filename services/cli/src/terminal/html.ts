// SPDX-License-Identifier: Apache-2.0
/** HTML that cannot be broken out of: whatever is put into a template is escaped, unless it is a template itself. */

export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type HtmlValue = string | number | Html | readonly HtmlValue[];

/** html`<p>${text}</p>` */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(parts.reduce((text, part, index) => text + textOf(values[index - 1] ?? "") + part));
}

function textOf(value: HtmlValue): string {
  if (value instanceof Html) return value.text;
  if (typeof value === "string") return escape(value);
  return typeof value === "number" ? String(value) : value.map(textOf).join("");
}

const CODES: Readonly<Record<string, string>> = { "&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "#39" };

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&${CODES[character]};`);
}
