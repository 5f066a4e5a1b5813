// SPDX-License-Identifier: Apache-2.0
import type { Metrics } from "@whetstone/telemetry";

/** What this library counts. Labels are closed sets: verbs, kinds, HTTP codes, names of reconcilers. */
export interface Instruments {
  request(verb: string, kind: string, code: string): void;
  relist(kind: string, reason: string): void;
  watchOpened(kind: string): void;
  event(kind: string, type: string): void;
  cached(kind: string, objects: number): void;
}

const silent: Instruments = {
  request: () => {},
  relist: () => {},
  watchOpened: () => {},
  event: () => {},
  cached: () => {},
};

export function createInstruments(metrics: Metrics | undefined): Instruments {
  if (!metrics) return silent;
  const requests = metrics.counter({
    name: "kube_requests_total",
    help: "Calls to the API server",
    labels: ["verb", "kind", "code"],
  });
  const relists = metrics.counter({
    name: "kube_relists_total",
    help: "Lists by reflectors",
    labels: ["kind", "reason"],
  });
  const events = metrics.counter({ name: "kube_watch_events_total", help: "Watch events", labels: ["kind", "type"] });
  const cached = metrics.gauge({ name: "kube_cached_objects", help: "Objects in memory", labels: ["kind"] });
  const opened = metrics.gauge({
    name: "kube_watch_opened_timestamp_seconds",
    help: "When the present watch began",
    labels: ["kind"],
  });
  const heard = metrics.gauge({
    name: "kube_watch_last_event_timestamp_seconds",
    help: "When a watch last said something, bookmarks included",
    labels: ["kind"],
  });
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
