// SPDX-License-Identifier: Apache-2.0
export { nemoGymEnvironment, type NemoGymOptions, ResponsesParams } from "./nemo-gym-environment.ts";
