// SPDX-License-Identifier: Apache-2.0
import { FORUM } from "./forum/forum.ts";
import { SHOP } from "./shop/shop.ts";
import type { SiteKind } from "./site.ts";

/** By name. */
export const SITES: Readonly<Record<"shop" | "forum", SiteKind>> = { shop: SHOP, forum: FORUM };
