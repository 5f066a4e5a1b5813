// SPDX-License-Identifier: Apache-2.0
// Who answers made questions by reading alone: it knows how they and the passages are worded, and nothing of what they say.
import { RELATIONS } from "./world.ts";

export type OracleTurn = { readonly search: string } | { readonly answer: string };

/** What to do next. @param read  all that was found so far. @throws Error for a question of another form */
export function oracleTurn(question: string, read: string): OracleTurn {
  const { start, relations } = parsed(question);
  let at = start;
  for (const { says } of relations) {
    const next = new RegExp(`\\b${at} ${says} (\\w+)\\.`, "u").exec(read)?.[1];
    if (next === undefined) return { search: at };
    at = next;
  }
  return { answer: at };
}

/** The entity that the question names, and the relations in the order in which they are followed. */
function parsed(question: string) {
  const match = /^What is (.+ of) (\w+)\?$/u.exec(question);
  let rest = match?.[1] ?? "";
  const relations = [];
  while (rest !== "") {
    const relation = RELATIONS.find(({ phrase }) => rest === phrase || rest.startsWith(`${phrase} `));
    if (relation === undefined) break;
    relations.unshift(relation);
    rest = rest.slice(relation.phrase.length + 1);
  }
  if (match === null || rest !== "") throw new Error(`not a made question: ${question}`);
  return { start: match[2] as string, relations };
}
