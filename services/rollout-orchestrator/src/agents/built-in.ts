// SPDX-License-Identifier: Apache-2.0
import type { RegisteredActor } from "@whetstone/sdk";
import { frozenLakeAgent } from "./frozenlake.ts";

/** What every orchestrator can play without a module. */
export const BUILT_IN: readonly RegisteredActor[] = [frozenLakeAgent];
