// SPDX-License-Identifier: Apache-2.0
import { createMetrics, type Metrics } from "@whetstone/telemetry";

/** What this library counts. Labels are closed sets: verbs, kinds, HTTP codes, names of reconcilers. */
export interface Instruments {
  request(verb: string, kind: string, code: string): void;
  relist(kind: string, reason: string): void;
  watchOpened(kind: string): void;
  event(kind: string, type: string): void;
  cached(kind: string, objects: number): void;
}

/** @param given  undefined: nobody reads them */
export function createInstruments(given: Metrics | undefined): Instruments {
  const metrics = given ?? createMetrics({ component: "kube", processMetrics: false });
  const requests = metrics.counter("kube_requests_total", "Calls to the API server", ["verb", "kind", "code"]);
  const relists = metrics.counter("kube_relists_total", "Lists by reflectors", ["kind", "reason"]);
  const events = metrics.counter("kube_watch_events_total", "Watch events", ["kind", "type"]);
  const cached = metrics.gauge("kube_cached_objects", "Objects in memory", ["kind"]);
  const opened = metrics.gauge("kube_watch_opened_timestamp_seconds", "When the present watch began", ["kind"]);
  const heard = metrics.gauge(
    "kube_watch_last_event_timestamp_seconds",
    "When a watch last said something, bookmarks included",
    ["kind"],
  );
  return {
    request: (verb, kind, code) => requests.inc({ verb, kind, code }),
    relist: (kind, reason) => relists.inc({ kind, reason }),
    watchOpened: (kind) => opened.set({ kind }, Date.now() / 1000),
    event: (kind, type) => {
      events.inc({ kind, type });
      heard.set({ kind }, Date.now() / 1000);
    },
    cached: (kind, objects) => cached.set({ kind }, objects),
  };
}
