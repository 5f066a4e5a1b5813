// SPDX-License-Identifier: Apache-2.0
export {
  ARTIFACT_KINDS,
  artifactDigest,
  artifactFileFault,
  artifactFolder,
  artifactOfPath,
  type ArtifactKindName,
  artifactNameFault,
  artifactNameFile,
  type ArtifactReference,
  artifactText,
  isArtifact,
  mapArtifacts,
  parseArtifact,
} from "./artifacts.ts";
export { type Backoff, type BackoffOptions, exponentialBackoff, retry, type RetryOptions } from "./backoff.ts";
export { boundedText } from "./bounded-text.ts";
export { type Clock, systemClock } from "./clock.ts";
export { loadConfig, type LoadConfigOptions, parseOrThrow } from "./config.ts";
export { dieWithUs } from "./die-with-us.ts";
export { abortReason, Deadline, raceSignal, sleep, withTimeout } from "./deadline.ts";
export {
  ConfigError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorContext,
  type ErrorOptions,
  isAbort,
  NoRoomError,
  RETRY_CLASSES,
  type RetryClass,
  type Violation,
  WhetstoneError,
} from "./errors.ts";
export { everyAddress, type Lookup } from "./every-address.ts";
export { Gate, type GateOptions } from "./gate.ts";
export { imageBytesFault, type ImageType, isImageType, MAX_IMAGE_BYTES } from "./image-bytes.ts";
export {
  baselineGroup,
  dispatchedGroups,
  episodeId,
  groupName,
  isJobId,
  jobId,
  parseEpisodeId,
  policyLabel,
  trainGroup,
} from "./ids.ts";
export { nearest } from "./nearest.ts";
export { onAbort } from "./on-abort.ts";
export { computePassAtK, passAtK, type TaskAttempts } from "./pass-at-k.ts";
export { makePassOrder, passOrder } from "./pass-order.ts";
export { isWithin, missing, outOfRange, type Range, rangeText } from "./range.ts";
export { createRng, deriveSeed, type Rng } from "./seed.ts";
export {
  MODULE_SETTINGS,
  NATS_SETTINGS,
  OBJECT_STORE_SETTINGS,
  POOL_SETTINGS,
  portSetting,
  SERVICE_SETTINGS,
} from "./service-settings.ts";
export { inTurns, runAtOnce, runInTurns } from "./turns.ts";
export { type VersionSpan, versionOfEachToken } from "./version-spans.ts";
