// SPDX-License-Identifier: Apache-2.0
import { CLICKS } from "./clicks.ts";
import type { Oracle } from "./oracle.ts";
import { SITES } from "./sites.ts";
import { TEXTS } from "./texts.ts";

/** By the task of MiniWoB++ that they solve. */
export const ORACLES: Readonly<Record<string, Oracle>> = { ...CLICKS, ...TEXTS, ...SITES };
