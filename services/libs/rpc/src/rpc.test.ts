// SPDX-License-Identifier: Apache-2.0
// Long on purpose: a list of cases, each a call between one client and one server.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromJsonString } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { ConfigError, sleep, type Violation, WhetstoneError } from "@whetstone/core";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { ErrorDetailSchema } from "@whetstone/proto/types/v1/types";
import { createLogger, createMetrics, silentLogger } from "@whetstone/telemetry";
import { describe, expect, it } from "vitest";
import { createClient, type Handlers, implement, startServer } from "./index.ts";

async function jobServer(handlers: Handlers<typeof JobService>, extra: object = {}) {
  return await startServer({
    host: "127.0.0.1",
    port: 0,
    services: [implement(JobService, handlers)],
    logger: silentLogger,
    ...extra,
  });
}

async function environmentServer(handlers: Handlers<typeof EnvironmentService>) {
  return await startServer({
    host: "127.0.0.1",
    port: 0,
    services: [implement(EnvironmentService, handlers)],
    logger: silentLogger,
  });
}

async function failure(work: Promise<unknown>): Promise<WhetstoneError> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(WhetstoneError);
  return error as WhetstoneError;
}

/** A call without a line of ours. @returns the error */
function bareCall(address: string, method: string, request = Buffer.alloc(0)): Promise<ServiceError> {
  const client = new Client(address, credentials.createInsecure());
  const path = `/whetstone.jobs.v1.JobService/${method}`;
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise<ServiceError>((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, request, (error) =>
      error ? resolve(error) : reject(new Error("no error")),
    );
  }).finally(() => client.close());
}

async function trailerOf(address: string, method: string): Promise<string> {
  return String((await bareCall(address, method)).metadata.get("whetstone-error-bin")[0]);
}

describe("unary calls", () => {
  it("carries a message both ways", async () => {
    await using server = await jobServer({ getJob: ({ name }) => Promise.resolve({ job: { uid: name } }) });
    await using client = createClient(JobService, server.address);
    const { job } = await client.getJob({ name: "fl-1" });
    expect(job?.uid).toBe("fl-1");
  });

  it("answers UNIMPLEMENTED where a handler is missing", async () => {
    await using server = await jobServer({});
    await using client = createClient(JobService, server.address);
    expect((await failure(client.getJob({ name: "a" }))).code).toBe("UNIMPLEMENTED");
  });

  it("carries code, retry class, context and every violation", async () => {
    const violations = [
      { path: "loop.batchGroups", reason: "must be at least 1" },
      { path: "loop.colour", reason: "unknown setting" },
    ];
    await using server = await jobServer({
      submitJob: () => Promise.reject(new ConfigError(violations)),
      getJob: () =>
        Promise.reject(new WhetstoneError("STALE_EPOCH", "epoch 3 is over", { context: { epoch: 3n, newest: 4 } })),
    });
    await using client = createClient(JobService, server.address);
    const refused = await failure(client.submitJob({}));
    expect(refused).toBeInstanceOf(ConfigError);
    expect((refused as ConfigError).violations).toEqual(violations);
    expect(refused.code).toBe("INVALID_ARGUMENT");
    const stale = await failure(client.getJob({ name: "a" }));
    expect([stale.code, stale.retry, stale.message]).toEqual(["STALE_EPOCH", "never", "epoch 3 is over"]);
    expect(stale.context).toMatchObject({ epoch: "3", newest: 4 });
  });

  it("tells of an error in the trailer that docs/errors.md describes", async () => {
    const docs = readFileSync(join(import.meta.dirname, "../../../../docs/errors.md"), "utf8");
    const example = /```json\n([^`]+)```/.exec(docs)?.[1] ?? "";
    const { violations, context } = JSON.parse(example) as {
      violations: Violation[];
      context: Record<string, unknown>;
    };
    const told = violations.map((violation) => ({ ...violation, curable: true })); // What stays at home.
    await using server = await jobServer({
      submitJob: () => Promise.reject(new ConfigError(told, { context })),
      getJob: () => Promise.reject(new WhetstoneError("NOT_FOUND", "x".repeat(2000))),
    });
    expect(JSON.parse(await trailerOf(server.address, "SubmitJob"))).toEqual(JSON.parse(example));
    for (const method of ["SubmitJob", "GetJob"]) {
      const detail = fromJsonString(ErrorDetailSchema, await trailerOf(server.address, method)); // Throws for other fields.
      expect([detail.code, detail.retry]).toEqual([method === "GetJob" ? "NOT_FOUND" : "INVALID_ARGUMENT", "never"]);
      expect(detail.message).toHaveLength(method === "GetJob" ? 2000 : 0);
    }
  });

  it("refuses a request that cannot be decoded, and is there for the next one", async () => {
    await using server = await jobServer({ getJob: ({ name }) => Promise.resolve({ job: { uid: name } }) });
    const error = await bareCall(server.address, "GetJob", Buffer.from([10, 200, 1]));
    expect(error.code).toBe(status.INVALID_ARGUMENT);
    expect(error.details).toMatch(/the request cannot be decoded/);
    await using client = createClient(JobService, server.address);
    expect((await client.getJob({ name: "a" })).job?.uid).toBe("a");
  });

  it("hides unknown errors from the caller and logs their cause", async () => {
    const lines: string[] = [];
    const logger = createLogger({ component: "test", destination: { write: (line) => lines.push(line) } });
    await using server = await jobServer(
      { getJob: () => Promise.reject(new Error("password is hunter2")) },
      { logger },
    );
    await using client = createClient(JobService, server.address);
    const error = await failure(client.getJob({ name: "a" }));
    expect([error.code, error.message]).toEqual(["INTERNAL", "internal error"]);
    expect(JSON.stringify(error.context)).not.toContain("hunter2");
    expect(lines.join("")).toContain("hunter2");
  });

  it("keeps an error with thousands of violations deliverable", async () => {
    const violations = Array.from({ length: 5_000 }, (_, i) => ({ path: `field${i}`, reason: "unknown setting" }));
    await using server = await jobServer({ submitJob: () => Promise.reject(new ConfigError(violations)) });
    await using client = createClient(JobService, server.address);
    const error = (await failure(client.submitJob({}))) as ConfigError;
    expect(error.violations[0]).toEqual(violations[0]);
    expect(error.violations.at(-1)?.reason).toMatch(/and \d+ more violations/);
  });

  it("ends handler and caller at the deadline", async () => {
    const aborted = Promise.withResolvers<unknown>();
    await using server = await jobServer({
      getJob: async (_, { signal }) => {
        signal.addEventListener("abort", () => {
          aborted.resolve(signal.reason);
        });
        await sleep(60_000, signal);
        return {};
      },
    });
    await using client = createClient(JobService, server.address);
    expect((await failure(client.getJob({ name: "a" }, { deadlineMs: 80 }))).code).toBe("DEADLINE_EXCEEDED");
    expect(await aborted.promise).toBeInstanceOf(WhetstoneError);
  });

  it("hands the caller's cancel to the handler", async () => {
    const started = Promise.withResolvers<AbortSignal>();
    await using server = await jobServer({
      getJob: async (_, { signal }) => {
        started.resolve(signal);
        await sleep(60_000, signal);
        return {};
      },
    });
    await using client = createClient(JobService, server.address);
    const controller = new AbortController();
    const call = failure(client.getJob({ name: "a" }, { signal: controller.signal }));
    const seen = await started.promise;
    const heard = new Promise((resolve) => {
      seen.addEventListener("abort", resolve);
    });
    controller.abort(new WhetstoneError("CANCELLED", "enough"));
    expect((await call).message).toBe("enough");
    await heard;
  });

  it("says which address cannot be reached", async () => {
    await using client = createClient(JobService, "127.0.0.1:1", { deadlineMs: 300 });
    const error = await failure(client.getJob({ name: "a" }));
    expect([error.code, error.retry]).toEqual(["UNAVAILABLE", "safe"]);
    expect(error.message).toContain("127.0.0.1:1");
  });
});

describe("server streams", () => {
  it("delivers in order and ends", async () => {
    await using server = await jobServer({
      async *watchJob() {
        for (let i = 0; i < 500; i += 1) yield { job: { uid: `j${i}` } };
      },
    });
    await using client = createClient(JobService, server.address);
    const names: (string | undefined)[] = [];
    for await (const { job } of client.watchJob({ name: "a" })) names.push(job?.uid);
    expect(names).toEqual(Array.from({ length: 500 }, (_, i) => `j${i}`));
  });

  it("delivers what came before an error, then the error", async () => {
    await using server = await jobServer({
      async *watchJob() {
        yield { job: { uid: "first" } };
        throw new WhetstoneError("NOT_FOUND", "job is gone");
      },
    });
    await using client = createClient(JobService, server.address);
    const stream = client.watchJob({ name: "a" })[Symbol.asyncIterator]();
    expect((await stream.next()).value?.job?.uid).toBe("first");
    expect((await failure(stream.next())).code).toBe("NOT_FOUND");
    expect((await stream.next()).done).toBe(true);
  });

  it("stops the generator when the reader leaves, even one that only waits (C2)", async () => {
    const stopped = Promise.withResolvers<string>();
    await using server = await jobServer({
      async *watchJob(_, { signal }) {
        try {
          for (;;) {
            yield { job: { uid: "x" } };
            await sleep(5, signal);
          }
        } finally {
          stopped.resolve("stopped");
        }
      },
    });
    await using client = createClient(JobService, server.address);
    for await (const _ of client.watchJob({ name: "a" })) break;
    expect(await stopped.promise).toBe("stopped");
    await expect.poll(() => server.activeCalls).toBe(0);
  });

  it("unwinds a generator that is parked at its yield and hears no signal (C2)", async () => {
    const stopped = Promise.withResolvers<string>();
    const text = "x".repeat(64 * 1024);
    await using server = await jobServer({
      async *watchJob() {
        try {
          for (;;) yield { job: { uid: text } };
        } finally {
          stopped.resolve("stopped");
        }
      },
    });
    await using client = createClient(JobService, server.address);
    const stream = client.watchJob({ name: "a" })[Symbol.asyncIterator]();
    await stream.next();
    await sleep(100);
    await stream.return?.();
    expect(await stopped.promise).toBe("stopped");
  });

  it("holds a fast writer to the reader's pace", async () => {
    let sent = 0;
    const text = "x".repeat(64 * 1024);
    await using server = await jobServer({
      async *watchJob() {
        for (; sent < 2_000; sent += 1) yield { job: { uid: text } };
      },
    });
    await using client = createClient(JobService, server.address);
    const stream = client.watchJob({ name: "a" })[Symbol.asyncIterator]();
    await stream.next();
    const sentMeanwhile = async (): Promise<number> => {
      const before = sent;
      await sleep(200);
      return sent - before;
    };
    await expect.poll(sentMeanwhile).toBe(0);
    expect(sent).toBeLessThan(1_000); // 64 queued, and what the windows of HTTP/2 hold.
    await stream.return?.();
  });
});

describe("bidirectional streams", () => {
  async function* commands(count: number): AsyncGenerator<object> {
    for (let i = 0; i < count; i += 1) yield {};
  }

  async function* endless(): AsyncGenerator<object> {
    yield {};
    await new Promise(() => undefined);
  }

  it("answers each request", async () => {
    await using server = await environmentServer({
      async *session(requests) {
        for await (const _ of requests) yield {};
      },
    });
    await using client = createClient(EnvironmentService, server.address);
    let answers = 0;
    for await (const _ of client.session(commands(300))) answers += 1;
    expect(answers).toBe(300);
  });

  it("tells a vanished client from one that has finished, every time (I9)", async () => {
    const endings: string[] = [];
    await using server = await environmentServer({
      async *session(requests) {
        try {
          for await (const _ of requests) yield {};
          endings.push("finished");
        } catch (error) {
          endings.push((error as WhetstoneError).code);
        }
      },
    });
    for (let i = 0; i < 100; i += 1) {
      await using client = createClient(EnvironmentService, server.address);
      const answers = client.session(endless())[Symbol.asyncIterator]();
      await answers.next();
      if (i % 2 === 0) await answers.return?.();
    }
    await expect.poll(() => endings.length).toBe(100);
    expect(new Set(endings)).toEqual(new Set(["CANCELLED"]));
  });

  it("passes the error of the request source on", async () => {
    await using server = await environmentServer({
      async *session(requests) {
        for await (const _ of requests) yield {};
      },
    });
    await using client = createClient(EnvironmentService, server.address);
    const answered = Promise.withResolvers<void>();
    const broken = (async function* () {
      yield {};
      await answered.promise;
      throw new Error("source broke");
    })();
    const answers = client.session(broken)[Symbol.asyncIterator]();
    await answers.next();
    answered.resolve();
    await expect(answers.next()).rejects.toThrow("source broke");
  });

  it("lets the handler end first and returns the source", async () => {
    const returned = Promise.withResolvers<string>();
    await using server = await environmentServer({
      async *session() {
        yield {};
      },
    });
    await using client = createClient(EnvironmentService, server.address);
    const source = (async function* () {
      try {
        for (;;) {
          yield {};
          await sleep(5);
        }
      } finally {
        returned.resolve("returned");
      }
    })();
    let answers = 0;
    for await (const _ of client.session(source)) answers += 1;
    expect(answers).toBe(1);
    expect(await returned.promise).toBe("returned");
  });
});

describe("server life cycle", () => {
  it("names host and port when the port is taken", async () => {
    await using first = await jobServer({});
    const error = await failure(jobServer({}, { port: first.port }));
    expect(error.message).toContain(`127.0.0.1:${first.port}`);
    expect(error.context).toMatchObject({ host: "127.0.0.1", port: first.port });
  });

  it("lets calls end within the grace period, then aborts the rest as UNAVAILABLE", async () => {
    await using server = await jobServer({
      getJob: async (_, { signal }) => {
        await sleep(100);
        signal.throwIfAborted();
        return {};
      },
      async *watchJob(_, { signal }) {
        yield {};
        await sleep(60_000, signal);
      },
    });
    await using client = createClient(JobService, server.address);
    const stream = client.watchJob({ name: "a" })[Symbol.asyncIterator]();
    await stream.next();
    const short = client.getJob({ name: "a" });
    const endless = failure(stream.next());
    await sleep(20);
    const startedAt = performance.now();
    await server.close(400);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    await short;
    expect((await endless).code).toBe("UNAVAILABLE");
  });

  it("serves a client that was started first", async () => {
    const probe = await jobServer({});
    const { port } = probe;
    await probe.close(0);
    await using client = createClient(JobService, `127.0.0.1:${port}`);
    const call = client.getJob({ name: "early" });
    await sleep(150);
    await using _server = await jobServer({ getJob: ({ name }) => Promise.resolve({ job: { uid: name } }) }, { port });
    expect((await call).job?.uid).toBe("early");
  });

  it("counts calls by method and code", async () => {
    const metrics = createMetrics({ component: "test", processMetrics: false });
    await using server = await jobServer({ getJob: () => Promise.resolve({}) }, { metrics });
    await using client = createClient(JobService, server.address);
    await client.getJob({ name: "a" });
    expect(await metrics.render()).toMatch(/whetstone_rpc_calls_total\{method=".*JobService\/GetJob",code="OK".*\} 1/);
  });
});
