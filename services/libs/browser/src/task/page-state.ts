// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { type Info, jsonFault, type PageState } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import { BLANK } from "../page/observe.ts";

type PageFacts = Omit<PageState, "messages" | "infeasible">;

const MAX_CHARACTERS = 100_000;
const TRIES = 5;
const BETWEEN_MS = 100;
/** A page that goes on while it is read is read once more. */
const GONE_ON = /Execution context was destroyed|frame (?:was|has been) detached|Target closed/iu;

/** Storage cannot be had on pages of no origin. */
const READ = `(() => {
  const stored = () => { try { return Object.entries(localStorage); } catch { return []; } };
  let left = ${MAX_CHARACTERS};
  const localStorage_ = stored().filter(([name, value]) => (left -= name.length + value.length) >= 0);
  const text = (document.body?.innerText ?? "").slice(0, ${MAX_CHARACTERS});
  return { title: document.title.slice(0, 1000), text, stored: localStorage_ };
})()`;

/** What a page has come to, as plain data. @param reads  expressions, by name */
export async function readState(page: Page, reads: Readonly<Record<string, string>>): Promise<PageFacts> {
  const url = page.url();
  if (url === BLANK) return { url, title: "", text: "", cookies: {}, localStorage: {}, values: nothing(reads) };
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await readOnce(page, reads);
    } catch (error) {
      if (left === 0 || !GONE_ON.test(String(error))) throw error;
    }
    await sleep(BETWEEN_MS);
  }
}

async function readOnce(page: Page, reads: Readonly<Record<string, string>>): Promise<PageFacts> {
  await page.waitForLoadState("domcontentloaded");
  const { title, text, stored }: { title: string; text: string; stored: [string, string][] } =
    await page.evaluate(READ);
  const values: Record<string, unknown> = {};
  for (const [name, expression] of Object.entries(reads)) values[name] = await valueOf(page, expression);
  const url = page.url();
  const cookies = (await page.context().cookies(url)).map(({ name, value }) => [name, value] as const);
  return {
    ...{ url, title, text, values },
    cookies: Object.fromEntries(cookies),
    localStorage: Object.fromEntries(stored),
  };
}

async function valueOf(page: Page, expression: string): Promise<unknown> {
  try {
    const value: unknown = await page.evaluate(expression);
    const isJson = value !== undefined && jsonFault(value, "") === undefined;
    return isJson && JSON.stringify(value).length <= MAX_CHARACTERS ? value : null;
  } catch (error) {
    if (page.isClosed() || GONE_ON.test(String(error))) throw error;
    return null;
  }
}

function nothing(reads: Readonly<Record<string, string>>): Info {
  return Object.fromEntries(Object.keys(reads).map((name) => [name, null]));
}
