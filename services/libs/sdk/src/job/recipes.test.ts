// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import * as recipes from "./recipes.ts";

const PAGE = new URL("../../../../../docs/algorithms.md", import.meta.url);

type Recipe = keyof typeof recipes;

/** The settings that the page's table says, by function; what the user has to choose is left out. */
function documented(): Map<Recipe, Record<string, unknown>> {
  const table = readFileSync(PAGE, "utf8").split("## Recipes")[1] ?? "";
  const rows = [...table.matchAll(/^\| [^|]* \| `(\w+)` *\| ([^|]*) \|$/gm)];
  return new Map(
    rows.map(([, name = "", settings = ""]) => {
      const said = [...settings.matchAll(/`(\w+: [^`]+)`/g)].map(([, one = ""]) => parse(one) as object);
      const { groupSize: _, ...own } = Object.assign({}, ...said) as Record<string, unknown>;
      return [name as Recipe, own];
    }),
  );
}

describe("recipes", () => {
  it("are those of the page", () => {
    expect([...documented().keys()].sort()).toEqual(Object.keys(recipes).sort());
  });

  it.each([...documented()])("%s is what the page says", (name, settings) => {
    const made = recipes[name]({ groupSize: 8 });
    const plain = recipes.grpo({ groupSize: 8, ...settings });
    expect(made).toEqual(plain);
  });

  it("give way to what is said", () => {
    expect(recipes.cispo({ groupSize: 8, clipHigh: 5 }).document).toMatchObject({
      policyGradient: { loss: "POLICY_LOSS_CISPO", clipHigh: 5, clipLow: 1 },
    });
  });
});
