// SPDX-License-Identifier: Apache-2.0
// Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit.
/** What an absent setting means. Durations are milliseconds. */
export const LIMIT_DEFAULTS = {
  maxSteps: 5,
  maxPromptTokens: 1024,
  maxResponseTokens: 8192,
  enforcePromptLimitEachStep: false,
  episodeTimeout: 300000,
  retryLimit: 2,
  gamma: 1,
  overlongFilter: false,
  accumulateThinking: true,
  disableThinking: false,
};
