// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { onAbort } from "./index.ts";

describe("onAbort", () => {
  it("calls each once, in order, and not those that left", () => {
    const controller = new AbortController();
    const heard: string[] = [];
    onAbort(controller.signal, () => heard.push("a"));
    const leave = onAbort(controller.signal, () => heard.push("b"));
    onAbort(controller.signal, () => heard.push("c"));
    leave();
    leave();
    controller.abort();
    controller.abort();
    expect(heard).toEqual(["a", "c"]);
  });

  it("never calls for a signal that had aborted before", () => {
    let heard = 0;
    onAbort(AbortSignal.abort(), () => (heard += 1))();
    expect(heard).toBe(0);
  });

  it("takes as long for the ten-thousandth as for the first", () => {
    const { signal } = new AbortController();
    const msOf = (count: number): number => {
      const startedAt = performance.now();
      const leave = Array.from({ length: count }, () => onAbort(signal, () => undefined));
      for (const take of leave) take();
      return (performance.now() - startedAt) / count;
    };
    msOf(1000);
    expect(msOf(30_000)).toBeLessThan(0.02); // 0.001 here; a linked list takes 0.1.
  });
});
