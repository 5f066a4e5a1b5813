// SPDX-License-Identifier: Apache-2.0
// A few hundred of the specifications of generated-jobs.ts through a bare client against JobService and a real nats-server.
import { reflect } from "@bufbuild/protobuf/reflect";
import { status } from "@grpc/grpc-js";
import { ensurePlatform, openBundleStore, openStreams } from "@whetstone/messaging";
import { startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { startNats } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { JobRecords } from "../../services/controller/src/jobs/service/job-records.ts";
import { JobStore } from "../../services/controller/src/jobs/job-store.ts";
import { readLedger } from "../../services/controller/src/loop/batch/kv-ledger.ts";
import { jobService } from "../../services/controller/src/jobs/service/job-service.ts";
import { openBareClient, type Refusal, refusalOf } from "../support/bare-client.ts";
import { generateSpecs, isPathOf, soundJobs } from "../support/generated-specs.ts";

const SEED = 7;

it("every generated job is refused by path, or accepted", async () => {
  await using nats = await startNats();
  await using connection = await nats.connect();
  await ensurePlatform(connection);
  const service = jobService({
    store: await JobStore.open(connection),
    records: new JobRecords(await openStreams(connection), await readLedger(connection), () => "/nowhere"),
    storedRuns: { checkpoints: () => Promise.reject(new Error("not here")) },
    bundles: openBundleStore(connection),
    rollouts: { replay: () => Promise.reject(new Error("not here")) },
    audit: () => Promise.reject(new Error("not here")),
    pin: (spec) => Promise.resolve({ spec, violations: [] }),
    deleteJob: () => Promise.reject(new Error("nothing is deleted here")),
    checkWorld: () => Promise.resolve([]),
    natsWatch: {
      overlay: (job) => job,
      async *withChanges(jobs) {
        yield* jobs;
      },
    },
    objects: undefined,
  });
  await using server = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
  using client = await openBareClient(server.address);
  const schema = client.message("whetstone.jobs.v1.JobSpec");
  const counts = { accepted: 0, refused: 0 };
  for (const { spec, changes } of generateSpecs(schema, soundJobs("/models/tiny"), { seed: SEED, count: 300 })) {
    const request = reflect(client.message("whetstone.jobs.v1.SubmitJobRequest"));
    request.set(request.desc.field["spec"] as never, reflect(schema, spec));
    request.set(request.desc.field["dryRun"] as never, true);
    const answer = await client.send("SubmitJob", request.message).catch((error: unknown) => refusalOf(error));
    const what = `seed ${SEED}: ${changes.join("; ")}`;
    if (!("violations" in answer)) counts.accepted++;
    else {
      const refusal = answer as unknown as Refusal;
      counts.refused++;
      expect([what, status[refusal.code]], refusal.details).toEqual([what, "INVALID_ARGUMENT"]);
      if (refusal.details.includes("cannot be decoded")) continue;
      // The last one may count those that a list of many left no room for.
      const named = refusal.violations.filter(({ reason }, i) => i === 0 || !/^and \d+ more violations$/.test(reason));
      const nowhere = named.filter(({ path }) => !isPathOf(schema, path));
      expect([what, refusal.violations.length > 0, nowhere]).toEqual([what, true, []]);
    }
  }
  expect(counts.accepted).toBeGreaterThan(50);
  expect(counts.refused).toBeGreaterThan(50);
});
