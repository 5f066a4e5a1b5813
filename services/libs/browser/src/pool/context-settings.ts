// SPDX-License-Identifier: Apache-2.0
import type { Site } from "./site.ts";

/** What an episode's pages are to be like. */
export interface ContextSettings {
  /** CSS pixels. */
  readonly viewport: { readonly width: number; readonly height: number };
  /** Sites that this process answers; no connection is made to them. */
  readonly sites: readonly Site[];
  /** What pages may connect to, each "host:port". */
  readonly reach: readonly string[];
}
