// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { difference, histogramOf, lists, parseMetrics, quantile, requestsOf } from "./metrics.ts";

const text = (fast: number, slow: number): string => `# HELP x y
whetstone_reconcile_seconds_bucket{le="0.1",reconciler="a",result="done"} ${fast}
whetstone_reconcile_seconds_bucket{le="0.5",reconciler="a",result="done"} ${fast + slow}
whetstone_reconcile_seconds_bucket{le="+Inf",reconciler="a",result="done"} ${fast + slow}
whetstone_reconcile_seconds_bucket{le="0.1",reconciler="b",result="done"} 0
whetstone_reconcile_seconds_bucket{le="0.5",reconciler="b",result="done"} 0
whetstone_reconcile_seconds_bucket{le="+Inf",reconciler="b",result="done"} 0
whetstone_kube_requests_total{verb="list",kind="Pod",code="200",component="controller"} ${slow}
whetstone_kube_requests_total{verb="list",kind="Pod",code="429",component="controller"} 1
whetstone_kube_relists_total{kind="Pod",reason="start"} ${slow}
`;

describe("measurement", () => {
  const grown = difference(parseMetrics(text(98, 4)), parseMetrics(text(0, 2)));

  it("finds a quantile of what was added", () => {
    const histogram = histogramOf(grown, "whetstone_reconcile_seconds");
    expect(histogram.count).toBe(100);
    expect(quantile(histogram, 0.5)).toBeCloseTo(0.051, 3);
    expect(quantile(histogram, 0.99)).toBeCloseTo(0.3, 3);
    expect(quantile(histogramOf(new Map(), "none"), 0.99)).toBe(0);
  });

  it("counts calls by verb and kind", () => {
    expect(requestsOf(grown)).toEqual({ "list Pod": 2 });
    expect(lists(grown)).toEqual({ Pod: 2 });
  });
});
