// SPDX-License-Identifier: Apache-2.0
import type { BrowserEnvironment } from "@whetstone/browser";
import type { Move } from "../src/site.ts";

interface Seen {
  readonly axtree?: string;
  readonly lastActionError?: string;
}

/** Does these moves by the page's text alone. @returns what the last of them was paid, and what was wrong with one; "": nothing */
export async function walk(env: BrowserEnvironment, moves: readonly Move[], first: Seen) {
  let [seen, reward, ended] = [first, 0, false];
  for (const move of moves) {
    if (ended) return { reward, ended, problem: "the episode had ended before" };
    const step = await env.step(actionOf(move, seen.axtree ?? ""));
    [seen, reward, ended] = [step.observation as Seen, step.reward ?? 0, step.terminated || step.truncated];
    if (seen.lastActionError) return { reward, ended, problem: seen.lastActionError };
  }
  return { reward, ended, problem: "" };
}

function actionOf(move: Move, tree: string): string {
  if ("say" in move) return `send_msg_to_user(${JSON.stringify(move.say)})`;
  if ("click" in move) return `click('${bidOf(tree, ...move.click)}')`;
  if ("fill" in move) return `fill('${bidOf(tree, "textbox", move.fill[0])}', ${JSON.stringify(move.fill[1])})`;
  return `select_option('${bidOf(tree, "combobox", move.choose[0])}', ${JSON.stringify(move.choose[1])})`;
}

/** @throws Error when there is no such element */
function bidOf(tree: string, role: string, name: string): string {
  const line = tree.split("\n").find((each) => each.includes(`] ${role} '${name}'`));
  const bid = /\[(\w+)\]/u.exec(line ?? "")?.[1];
  if (bid === undefined) throw new Error(`no ${role} "${name}" in ${tree}`);
  return bid;
}
