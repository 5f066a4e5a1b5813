// SPDX-License-Identifier: Apache-2.0
import type { Engine } from "./engine.ts";

/** Says what it saw, or throws what is wrong; `Skipped` where the engine has not what is asked about. */
export type EngineCheck = (engine: Engine) => Promise<string>;
