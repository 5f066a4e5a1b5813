// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { Kube } from "./kube.ts";
import { type KubeObject, resource, type ResourceType, type Stored } from "./objects.ts";

interface EventObject extends KubeObject {
  eventTime?: string;
  reportingController?: string;
  reportingInstance?: string;
  action?: string;
  reason?: string;
  note?: string;
  type?: string;
  regarding?: object;
  series?: { count: number; lastObservedTime: string };
}

const EVENTS = resource<EventObject>("events.k8s.io/v1", "Event", "events");
/** The same event about the same object within this time is counted, not repeated. */
const SERIES_MS = 360_000;
/** At most so many calls a minute for one object, and a first burst. */
const PER_OBJECT = { burst: 25, perMinute: 5 } as const;
const MAX_KNOWN = 4096;

export interface EventText {
  readonly type?: "Normal" | "Warning";
  /** CamelCase. */
  readonly reason: string;
  readonly message: string;
  /** What was done or tried. Default: the reason. */
  readonly action?: string;
}

interface Told {
  readonly name: string;
  readonly namespace: string;
  at: number;
  count: number;
  /** Settles when the first one was recorded. */
  recorded: Promise<unknown>;
}

interface Book {
  readonly told: Map<string, Told>;
  readonly budgets: Map<string, { tokens: number; at: number }>;
}

const books = new WeakMap<Kube, Book>();

/** Tells people about an object (`kubectl describe`). Never throws and never waits: events tell of changes, conditions are facts. */
export function recordEvent(
  kube: Kube,
  about: Stored<KubeObject>,
  event: EventText & { readonly of?: Pick<ResourceType<KubeObject>, "apiVersion" | "kind"> },
): void {
  const book = bookOf(kube);
  const key = [about.metadata.uid, event.type, event.reason, event.message].join("\n");
  const now = Date.now();
  if (!spend(book, about.metadata.uid, now)) return;
  const told = book.told.get(key);
  const isSeries = told !== undefined && now - told.at < SERIES_MS;
  const sending = isSeries ? repeat(kube, told, now) : first(kube, { book, key, about, event, now });
  sending.catch((error: unknown) => kube.logger.debug("event_not_recorded", { reason: event.reason, error }));
}

interface First {
  readonly book: Book;
  readonly key: string;
  readonly about: Stored<KubeObject>;
  readonly event: Parameters<typeof recordEvent>[2];
  readonly now: number;
}

async function first(kube: Kube, { book, key, about, event, now }: First): Promise<void> {
  const { name: regardingName, namespace = kube.namespace, uid, resourceVersion } = about.metadata;
  const { type = "Normal", reason, message, action = reason, of = about } = event;
  const hash = createHash("sha256").update(`${key}\n${now}`).digest("hex").slice(0, 16);
  const name = `${regardingName.slice(0, 200)}.${hash}`;
  trim(book.told);
  const recorded = kube.create(EVENTS, {
    metadata: { name, namespace },
    eventTime: microTime(now),
    reportingController: `whetstone.dev/${kube.fieldManager}`.slice(0, 128),
    reportingInstance: (process.env["HOSTNAME"] ?? `pid-${process.pid}`).slice(0, 128),
    action: action.slice(0, 128),
    reason: reason.slice(0, 128),
    note: message.slice(0, 1024),
    type,
    regarding: { apiVersion: of.apiVersion, kind: of.kind, name: regardingName, namespace, uid, resourceVersion },
  });
  book.told.set(key, { name, namespace, at: now, count: 1, recorded });
  await recorded;
}

async function repeat(kube: Kube, told: Told, now: number): Promise<void> {
  told.count++;
  told.at = now;
  await told.recorded;
  const series = { count: told.count, lastObservedTime: microTime(now) };
  await kube.patch(EVENTS, told.name, { series }, { namespace: told.namespace });
}

/** A bucket for each object, so that one in trouble does not silence the others. */
function spend(book: Book, uid: string, now: number): boolean {
  const { burst, perMinute } = PER_OBJECT;
  const before = book.budgets.get(uid) ?? { tokens: burst, at: now };
  const tokens = Math.min(burst, before.tokens + ((now - before.at) / 60_000) * perMinute);
  trim(book.budgets);
  book.budgets.set(uid, { tokens: tokens >= 1 ? tokens - 1 : tokens, at: now });
  return tokens >= 1;
}

function trim(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (map.size >= MAX_KNOWN && oldest !== undefined) map.delete(oldest);
}

function bookOf(kube: Kube): Book {
  const book = books.get(kube) ?? {
    told: new Map<string, Told>(),
    budgets: new Map<string, { tokens: number; at: number }>(),
  };
  books.set(kube, book);
  return book;
}

/** MicroTime wants six decimals. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
