// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Condition, type Kube, type KubeObject, openKube, resource, type Stored } from "@whetstone/kube";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Look, ObjectReconciler } from "./object-reconciler.ts";
import type { OperatorParts } from "./parts.ts";

interface Thing extends KubeObject {
  status?: { size: number; conditions?: Condition[] };
}
const THINGS = resource<Thing>("example.dev/v1", "Thing", "things");

/** What is written to the server: path, query and body. */
let writes: string[];
let things: Stored<Thing>[];
let watchers: ServerResponse[];
let server: Server;
let kube: Kube;
let end: AbortController;

beforeEach(async () => {
  writes = [];
  things = [];
  watchers = [];
  end = new AbortController();
  server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://api");
    response.writeHead(200, { "content-type": "application/json" });
    if (url.searchParams.get("watch") === "true") response.flushHeaders();
    if (url.searchParams.get("watch") === "true") return void watchers.push(response);
    if (request.method === "GET") return void response.end(JSON.stringify({ metadata: {}, items: things }));
    void text(request).then((body) => {
      writes.push(`${request.method} ${url.pathname}${url.search} ${body}`);
      response.end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  kube = openKube({ logger: silentLogger, server: address, namespace: "ns" });
});

afterEach(async () => {
  end.abort();
  kube[Symbol.dispose]();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const thing = (name: string, version: number, over: Partial<Stored<Thing>["metadata"]> = {}): Stored<Thing> => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: String(version), ...over },
});

class Things extends ObjectReconciler<Thing> {
  readonly log: string[] = [];
  next: Look<Thing> = { status: { size: 1 } };

  constructor(isFinalized = false) {
    const parts = { kube, logger: silentLogger } as unknown as OperatorParts;
    super(parts, end.signal, { name: "thing", type: THINGS, isFinalized });
    this.resources.defer(() => void this.log.push("disposed"));
  }

  protected look({ metadata }: Stored<Thing>): Promise<Look<Thing>> {
    this.log.push(`look ${metadata.name}`);
    return Promise.resolve(this.next);
  }

  protected forget(name: string): Promise<void> {
    this.log.push(`forget ${name}`);
    return Promise.resolve();
  }

  protected override told({ metadata }: Stored<Thing>, { size }: { size: number }): void {
    this.log.push(`told ${metadata.name} ${size}`);
  }
}

function change(type: "MODIFIED" | "DELETED", object: Stored<Thing>): void {
  for (const watcher of watchers) watcher.write(`${JSON.stringify({ type, object })}\n`);
}

describe("the controller of a kind", () => {
  it("looks at an object, applies its status as its field manager, and tells of it once", async () => {
    things = [thing("a", 1)];
    await using controller = new Things();
    await controller.start();
    await waitFor(() => controller.log.length === 2);
    expect(writes).toEqual([
      "PATCH /apis/example.dev/v1/namespaces/ns/things/a/status?fieldManager=whetstone-controller&force=true " +
        '{"metadata":{"name":"a"},"status":{"size":1},"apiVersion":"example.dev/v1","kind":"Thing"}',
    ]);
    await waitFor(() => watchers.length === 1);
    change("MODIFIED", { ...thing("a", 2), status: { size: 1 } });
    await waitFor(() => controller.log.length === 3);
    expect(controller.log).toEqual(["look a", "told a 1", "look a"]);
    expect(writes).toHaveLength(1);
  });

  it("comes back in time, and sooner for a status that is not worth a write yet", async () => {
    things = [{ ...thing("a", 1), status: { size: 0 } }];
    await using controller = new Things();
    controller.next = { status: { size: 1 }, requeueAfterMs: 20 };
    await controller.start();
    await waitFor(() => controller.log.filter((line) => line === "look a").length >= 3);
    // The cache still has the former status, and no condition has changed.
    expect(controller.log.filter((line) => line.startsWith("told"))).toHaveLength(1);
  });

  it("forgets what is gone or on its way out; one that we hold by a finalizer is looked at", async () => {
    const leaving = thing("b", 2, { deletionTimestamp: "2026-01-01T00:00:00Z" });
    things = [thing("a", 1), leaving];
    await using controller = new Things();
    await using holding = new Things(true);
    await Promise.all([controller.start(), holding.start()]);
    await waitFor(() => controller.log.includes("forget b") && holding.log.includes("look b"));
    await waitFor(() => watchers.length === 2);
    change("DELETED", leaving);
    await waitFor(() => holding.log.includes("forget b"));
    expect(controller.log).not.toContain("look b");
  });

  it("disposes of what it opened, and starts nothing that is aborted", async () => {
    const controller = new Things();
    end.abort();
    await controller.start();
    await controller[Symbol.asyncDispose]();
    expect(controller.log).toEqual(["disposed"]);
  });
});
