// SPDX-License-Identifier: Apache-2.0
import { fromJson, type JsonObject, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConfigError, WhetstoneError } from "@whetstone/core";
import { isProcessDeath } from "@whetstone/modules";
import type { SessionResponseSchema } from "@whetstone/proto/environments/v1/environments";
import { classify, type ResetResult, type StepResult } from "@whetstone/sdk";
import { ModuleMissingError } from "../host/module-environments.ts";

export type SessionAnswer = MessageInitShape<typeof SessionResponseSchema>;
export type ErrorCode = "TASK" | "ENVIRONMENT" | "GRADER" | "CANCELLED" | "MODULE" | "CRASHED" | "DRAINING";

export interface SessionError {
  readonly code: ErrorCode;
  /** Field path of a broken argument. Empty: none. */
  readonly field: string;
  readonly message: string;
}

export function observationAnswer(result: ResetResult | StepResult): SessionAnswer {
  const { observation, images = [], info } = result;
  const step = "terminated" in result ? result : undefined;
  return {
    kind: {
      case: "observation",
      value: {
        ...(typeof observation === "string"
          ? { text: observation }
          : { data: fromJson(ValueSchema, jsonOf(observation)) }),
        ...(step?.reward === undefined ? {} : { reward: step.reward }),
        terminated: step?.terminated ?? false,
        truncated: step?.truncated ?? false,
        ...(images.length === 0 ? {} : { images: images.map(({ digest = "", ...image }) => ({ ...image, digest })) }),
        ...(isEmpty(info) ? {} : { info: info as JsonObject }),
      },
    },
  };
}

/** Its check found JSON values only; properties that are undefined go. */
function jsonOf(observation: unknown): JsonValue {
  return typeof observation === "object"
    ? (JSON.parse(JSON.stringify(observation)) as JsonValue)
    : (observation as JsonValue);
}

function isEmpty(record: object): boolean {
  for (const _key in record) return false;
  return true;
}

export function errorAnswer(thrown: unknown): SessionError {
  const error = WhetstoneError.from(thrown);
  if (error.code === "CANCELLED") return { code: "CANCELLED", field: "", message: error.message };
  if (error instanceof ModuleMissingError) return { code: "MODULE", field: "module", message: error.message };
  if (isProcessDeath(error)) return { code: "CRASHED", field: "", message: `${error.code}: ${error.message}` };
  const failureClass = classify(thrown, "step").class;
  const code = failureClass === "TASK" || failureClass === "GRADER" ? failureClass : "ENVIRONMENT";
  const field = thrown instanceof ConfigError ? (thrown.violations[0]?.path ?? "") : "";
  return { code, field, message: error.message };
}
