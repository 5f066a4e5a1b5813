// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Logger, Metrics } from "@whetstone/telemetry";
import { httpStatus } from "./api-error.ts";
import { type Credentials, loadCredentials, openServer } from "./credentials.ts";
import { createInstruments, type Instruments } from "./instruments.ts";
import { type Draft, type KubeObject, pathOf, type ResourceType, type Stored } from "./objects.ts";
import { type Call, Transport } from "./transport.ts";

const PAGE = 500;
const LIST_MS = 60_000;
export const MERGE_PATCH = "application/merge-patch+json";
const APPLY_PATCH = "application/apply-patch+yaml";

export interface CallOptions {
  /** Default: the client's own. */
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface ListOptions extends CallOptions {
  /** Label selector: `whetstone.dev/pool=a`. */
  readonly labels?: string | undefined;
  readonly fields?: string | undefined;
}

export interface ApplyOptions extends CallOptions {
  /** Take fields over that others own. Default true: a controller applies only what is its own to decide. */
  readonly force?: boolean;
  readonly fieldManager?: string;
}

export interface DeleteOptions extends CallOptions {
  /** Only this very object, never one of the same name that came after it. */
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly graceSeconds?: number | undefined;
  /** Default Background: children go after the owner. */
  readonly propagation?: "Background" | "Foreground" | "Orphan";
}

export interface KubeOptions {
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  /** Of the kubeconfig; default: its current one. */
  readonly context?: string | undefined;
  /** Default: of the context or the service account, else `default`. */
  readonly namespace?: string | undefined;
  /** Owner of the fields that are applied. Default `whetstone-controller`. */
  readonly fieldManager?: string | undefined;
  /** A server that needs no credentials, instead of any configuration: `http://127.0.0.1:8001`. */
  readonly server?: string | undefined;
  /** Called before every call that changes something; what it throws is what the call throws. */
  readonly guard?: (() => void) | undefined;
}

export interface Page<T> {
  readonly items: Stored<T>[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

/** In a pod from its service account, elsewhere from KUBECONFIG. */
export function openKube(options: KubeOptions): Kube {
  const credentials = options.server === undefined ? loadCredentials(options.context) : openServer(options.server);
  return new Kube(options, credentials, createInstruments(options.metrics));
}

/**
 * A typed client. Every call ends by a deadline (30 s) and fails with a WhetstoneError: NOT_FOUND, ALREADY_EXISTS, CONFLICT,
 * INVALID_ARGUMENT (with the refused fields), PERMISSION_DENIED, UNAVAILABLE, …; `context.status` is the HTTP status.
 */
export class Kube implements Disposable {
  readonly namespace: string;
  readonly fieldManager: string;
  readonly logger: Logger;
  readonly instruments: Instruments;
  readonly #options: KubeOptions;
  readonly credentials: Credentials;
  readonly #transport: Transport;

  constructor(options: KubeOptions, credentials: Credentials, instruments: Instruments) {
    this.#options = options;
    this.credentials = credentials;
    this.namespace = options.namespace ?? credentials.namespace ?? "default";
    this.fieldManager = options.fieldManager ?? "whetstone-controller";
    this.logger = options.logger;
    this.instruments = instruments;
    this.#transport = new Transport(credentials, instruments);
  }

  /** The same server and identity over connections of its own, with other options. */
  separate(options: Partial<Pick<KubeOptions, "guard" | "namespace" | "fieldManager">> = {}): Kube {
    return new Kube({ ...this.#options, ...options }, this.credentials, this.instruments);
  }

  async get<T extends KubeObject>(
    type: ResourceType<T>,
    name: string,
    options: CallOptions = {},
  ): Promise<Stored<T> | undefined> {
    const call = { verb: "get", method: "GET" as const, path: this.#path(type, options, name) };
    return await this.#call<Stored<T>>(type, call, options).catch(orUndefined);
  }

  /** All of them, page by page. */
  async list<T extends KubeObject>(type: ResourceType<T>, options: ListOptions = {}): Promise<Stored<T>[]> {
    const items: Stored<T>[] = [];
    for (let next: string | undefined = ""; next !== undefined;) {
      const page: Page<T> = await this.listPage(type, { ...options, next });
      items.push(...page.items);
      next = page.next;
    }
    return items;
  }

  async listPage<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions & { readonly next?: string; readonly limit?: number; readonly patient?: boolean },
  ): Promise<Page<T>> {
    const { labels, fields, next, limit = PAGE, patient } = options;
    const query = {
      labelSelector: labels,
      fieldSelector: fields,
      limit: limit > 0 ? String(limit) : undefined,
      continue: next === "" ? undefined : next,
    };
    const call = { verb: "list", method: "GET" as const, path: this.#path(type, options), query, patient };
    const answer = await this.#call<RawList<T>>(type, call, { timeoutMs: LIST_MS, ...options });
    const { resourceVersion = "", continue: token = "" } = answer.metadata ?? {};
    return { items: answer.items ?? [], resourceVersion, next: token === "" ? undefined : token };
  }

  /** The raw lines of a watch. Use `reflect`. */
  watch(
    type: ResourceType<KubeObject>,
    options: ListOptions & { readonly resourceVersion: string; readonly timeoutSeconds: number },
    silenceMs: number,
  ): AsyncIterable<string> {
    const query = {
      labelSelector: options.labels,
      fieldSelector: options.fields,
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: options.resourceVersion,
      timeoutSeconds: String(options.timeoutSeconds),
    };
    const path = this.#path(type, options);
    const { signal } = options;
    return this.#transport.stream({ verb: "watch", kind: type.kind, method: "GET", path, query, signal }, silenceMs);
  }

  /** @throws ALREADY_EXISTS */
  create<T extends KubeObject>(type: ResourceType<T>, object: Draft<T>, options: CallOptions = {}): Promise<Stored<T>> {
    const path = this.#path(type, { ...options, namespace: object.metadata.namespace ?? options.namespace });
    const query = { fieldManager: this.fieldManager };
    return this.#change(type, { verb: "create", method: "POST", path, query, body: sent(type, object) }, options);
  }

  /** Server-side apply: the object becomes what is said here; fields that are not said here are not ours. */
  apply<T extends KubeObject>(type: ResourceType<T>, object: Draft<T>, options: ApplyOptions = {}): Promise<Stored<T>> {
    return this.#apply(type, object, options, undefined);
  }

  /** Server-side apply of the `status` subresource. */
  applyStatus<T extends KubeObject>(
    type: ResourceType<T>,
    object: Draft<T>,
    options: ApplyOptions = {},
  ): Promise<Stored<T>> {
    return this.#apply(type, object, options, "status");
  }

  /** JSON merge patch: null removes a field, a list replaces a list. */
  patch<T extends KubeObject>(
    type: ResourceType<T>,
    name: string,
    mergePatch: object,
    options: CallOptions & { readonly subresource?: string } = {},
  ): Promise<Stored<T>> {
    const path = this.#path(type, options, name, options.subresource);
    const query = { fieldManager: this.fieldManager };
    const call = { verb: "patch", method: "PATCH" as const, path, query, body: mergePatch, contentType: MERGE_PATCH };
    return this.#change(type, call, options);
  }

  /** @returns false when there was nothing to delete. @throws CONFLICT when a precondition does not hold */
  async delete(type: ResourceType<KubeObject>, name: string, options: DeleteOptions = {}): Promise<boolean> {
    const { uid, resourceVersion, graceSeconds, propagation = "Background" } = options;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    const body = {
      kind: "DeleteOptions",
      apiVersion: "v1",
      propagationPolicy: propagation,
      ...(Object.keys(preconditions).length > 0 && { preconditions }),
      ...(graceSeconds !== undefined && { gracePeriodSeconds: graceSeconds }),
    };
    const call = { verb: "delete", method: "DELETE" as const, path: this.#path(type, options, name), body };
    return (await this.#change(type, call, options).catch(orUndefined)) !== undefined;
  }

  /** Whether the cluster has this kind: its CRD is installed. Always asks the server. */
  async has(
    type: Pick<ResourceType<KubeObject>, "apiVersion" | "plural">,
    options: CallOptions = {},
  ): Promise<boolean> {
    const path = `${type.apiVersion.includes("/") ? "/apis" : "/api"}/${type.apiVersion}`;
    const call = { verb: "discover", kind: "APIResourceList", method: "GET" as const, path, ...options };
    const found = await this.#transport.call<{ resources?: { name: string }[] }>(call).catch(orUndefined);
    return (found?.resources ?? []).some(({ name }) => name === type.plural);
  }

  /** Any other call, by path. */
  raw<T>(call: Omit<Call, "kind"> & { readonly kind?: string }): Promise<T> {
    if (call.method !== "GET") this.#options.guard?.();
    return this.#transport.call<T>({ kind: "raw", ...call });
  }

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }

  #apply<T extends KubeObject>(
    type: ResourceType<T>,
    object: Draft<T>,
    options: ApplyOptions,
    sub: string | undefined,
  ): Promise<Stored<T>> {
    const { name, namespace } = object.metadata;
    if (!name) throw new WhetstoneError("INVALID_ARGUMENT", `an applied ${type.kind} needs metadata.name`);
    const path = this.#path(type, { ...options, namespace: namespace ?? options.namespace }, name, sub);
    const query = {
      fieldManager: options.fieldManager ?? this.fieldManager,
      force: options.force === false ? undefined : "true",
    };
    const body = sent(type, object);
    return this.#change(type, { verb: "apply", method: "PATCH", path, query, body, contentType: APPLY_PATCH }, options);
  }

  async #change<T>(type: ResourceType<KubeObject>, call: Omit<Call, "kind">, options: CallOptions): Promise<Stored<T>> {
    this.#options.guard?.();
    return await this.#call(type, call, options);
  }

  #call<T>(type: ResourceType<KubeObject>, call: Omit<Call, "kind">, options: CallOptions): Promise<T> {
    const { signal, timeoutMs } = options;
    return this.#transport.call<T>({ ...call, kind: type.kind, signal, timeoutMs });
  }

  #path(type: ResourceType<KubeObject>, options: CallOptions, name?: string, sub?: string): string {
    return pathOf(type, {
      namespace: options.namespace ?? this.namespace,
      name,
      sub,
    });
  }
}

interface RawList<T> {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: Stored<T>[] | null;
}

/** NOT_FOUND of the object is an answer; of its kind too: then there is none of it. */
function orUndefined(error: unknown): undefined {
  if (httpStatus(error) === 404) return undefined;
  throw error;
}

function sent<T extends KubeObject>(type: ResourceType<T>, object: Draft<T>): object {
  const { apiVersion, kind } = type;
  return { ...object, apiVersion, kind };
}
