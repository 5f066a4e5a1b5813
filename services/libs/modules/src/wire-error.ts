// SPDX-License-Identifier: Apache-2.0
import { ConfigError, type ErrorCode, type RetryClass, type Violation, WhetstoneError } from "@whetstone/core";
import { EpisodeError, type FailureClass } from "@whetstone/sdk";
import { placeOf, placeOfFunction } from "./load-module.ts";

/** An error in plain data. Causes and stacks stay where they are. */
export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retry: RetryClass;
  readonly failureClass?: FailureClass;
  readonly violations?: readonly Violation[];
}

const MAX_MESSAGE_CHARACTERS = 4_000;

/** @param folder  of the module: an error of user code tells its line there. */
export function toWire(thrown: unknown, folder: string): WireError {
  const { code, message, retry } = WhetstoneError.from(thrown);
  return {
    code,
    message: withPlace(message, thrown, folder).slice(0, MAX_MESSAGE_CHARACTERS),
    retry,
    ...(thrown instanceof EpisodeError ? { failureClass: thrown.failureClass } : {}),
    ...(thrown instanceof ConfigError ? { violations: thrown.violations } : {}),
  };
}

/** Errors that are written for people say it themselves. */
function withPlace(message: string, thrown: unknown, folder: string): string {
  const place = placeIn(thrown, folder);
  return place === "" || message.includes(place) ? message : `${message} (${place})`;
}

function placeIn(thrown: unknown, folder: string): string {
  if (thrown instanceof EpisodeError && thrown.culprit !== undefined) return placeOfFunction(thrown.culprit, folder);
  return thrown instanceof WhetstoneError ? placeOf(thrown.cause, folder) : placeOf(thrown, folder);
}

export function fromWire({ code, message, retry, failureClass, violations }: WireError): WhetstoneError {
  if (failureClass !== undefined) return new EpisodeError(failureClass, message, { code });
  if (violations !== undefined) return new ConfigError(violations, { code });
  return new WhetstoneError(code, message, { retry });
}
