// SPDX-License-Identifier: Apache-2.0
import type { SiteFiles } from "./site-files.ts";

/** What an episode's pages are to be like. */
export interface ContextSettings {
  /** CSS pixels. */
  readonly viewport: { readonly width: number; readonly height: number };
  /** Sites that are files of this machine; no connection is made to them. */
  readonly sites: readonly SiteFiles[];
  /** What pages may connect to, each "host:port". */
  readonly reach: readonly string[];
}
