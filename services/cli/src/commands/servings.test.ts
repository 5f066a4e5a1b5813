// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ServingSchema, ServingService } from "@whetstone/proto/serving/v1/serving";
import { implement, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, expect, it } from "vitest";

import { type FakeTerminal, fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

const SERVING = create(ServingSchema, { name: "bot", versions: [{ version: 1n }] });
let terminal: FakeTerminal;
let server: RpcServer;
let interrupt: AbortController;

beforeEach(async () => {
  [terminal, interrupt] = [fakeTerminal(), new AbortController()];
  const service = implement(ServingService, {
    createServing: () => ({ serving: SERVING, created: true }),
    getServing: () => {
      interrupt.abort();
      return { serving: { serving: SERVING, engines: 0, message: "No engine serves it yet." } };
    },
    listServings: () => ({ servings: [] }),
    changeServing: () => ({ serving: SERVING }),
    deleteServing: () => ({}),
    async *streamFeedback() {
      yield { tasks: [] };
    },
  });
  server = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
});
afterEach(() => server[Symbol.asyncDispose]());

it("shows the key that it issued though it is interrupted while it waits for an engine", async () => {
  const { signal } = interrupt;
  const environment = { WHETSTONE_ENDPOINT: server.address };
  const argv = ["serve", "job", "--name", "bot"];
  await runCommand(argv, { terminal, environment, signal, force: new AbortController().signal });
  expect(terminal.out.join("\n")).toMatch(/No engine serves it yet\.[^]*key +wsk-\S{32}/);
});
