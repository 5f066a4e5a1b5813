// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { OwnSite } from "./own-site.ts";
import { says } from "./own-site-task.ts";
import { SITES } from "./sites.ts";

describe("the sites' servers", () => {
  it("answer rude forms by a page that says why, and change nothing", async () => {
    using site = new OwnSite(SITES.shop, 1, "fillCart");
    const post = async (path: string, form: string, type = "application/x-www-form-urlencoded") => {
      const headers = { "content-type": type };
      return (await site.answer({ method: "POST", path, headers, body: Buffer.from(form) })).status;
    };
    expect(await post("/cart", "product=1&quantity=1e9")).toBe(400);
    expect(await post("/cart", "product=999&quantity=1")).toBe(404);
    expect(await post("/cart", "product=1' OR 1&quantity=1")).toBe(404);
    expect(await post("/checkout", "address=Home")).toBe(400);
    expect(await post("/checkout", "address=Moon")).toBe(400);
    expect(await post("/product/1/review", "stars=9&text=x")).toBe(400);
    expect(await post("/cart", "{}", "application/json")).toBe(404);
    expect(await post("/cart", "x".repeat(100_000))).toBe(413);
    expect(
      (await site.answer({ method: "GET", path: "/cart", headers: {}, body: undefined })).body.toString(),
    ).toContain("Your cart is empty");
  });

  it("show what people wrote as text", async () => {
    using site = new OwnSite(SITES.forum, 1, "publish");
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const body = Buffer.from("title=%3Cscript%3E&text=%22%26");
    expect((await site.answer({ method: "POST", path: "/g/baking/posts", headers, body })).status).toBe(303);
    const { body: page } = await site.answer({ method: "GET", path: "/g/baking", headers: {}, body: undefined });
    expect(page.toString()).toContain("&lt;script&gt;");
    expect(page.toString()).not.toContain("<script>");
  });

  it("have every goal for each of many seeds, and the same one again", () => {
    for (const kind of Object.values(SITES))
      for (const goal of Object.keys(kind.goals))
        for (let seed = 0; seed < 30; seed += 1) {
          using one = new OwnSite(kind, seed, goal);
          using again = new OwnSite(kind, seed, goal);
          expect(again.goal.text).toBe(one.goal.text);
          expect(one.isAsWanted).toBe(one.goal.change === undefined);
        }
  }, 60_000);
});

describe("an answer", () => {
  it("counts as whole words", () => {
    expect(["It costs $2.50.", "$2.50", "it is $2.50, sir"].map((text) => says(text, "$2.50"))).toEqual([
      true,
      true,
      true,
    ]);
    expect(["$12.50", "$2.505", "2.50"].map((text) => says(text, "$2.50"))).toEqual([false, false, false]);
    expect([says("There are 13", "3"), says("By Ada Finch.", "ada finch"), says("1.3", "3")]).toEqual([
      false,
      true,
      false,
    ]);
  });
});
