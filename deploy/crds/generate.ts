// SPDX-License-Identifier: Apache-2.0
/** Writes the schema of TrainingJob's `spec.job` from the contract: part of `make gen`. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { stringify } from "yaml";
import { schemaOf } from "./schema.ts";

const ROOT = join(import.meta.dirname, "../..");
const TARGET = join(ROOT, "charts/whetstone-crds/generated/job-spec.yaml");
const HEADER = "# Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit: see deploy/crds.\n";

/** The contract with its comments, which proto/gen does not keep. */
function readContract(): ReturnType<typeof createFileRegistry> {
  const args = ["build", "--as-file-descriptor-set", "-o", "-"];
  const bytes = execFileSync("buf", args, { cwd: join(ROOT, "proto"), maxBuffer: 64 * 2 ** 20 });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}

const contract = readContract();
const job = contract.getMessage("whetstone.jobs.v1.JobSpec");
if (!job) throw new Error("the contract has no whetstone.jobs.v1.JobSpec");
writeFileSync(TARGET, HEADER + stringify(schemaOf(job), { lineWidth: 0, aliasDuplicateObjects: false }));
