// SPDX-License-Identifier: Apache-2.0
import type { SiteKind } from "../site.ts";
import { SHOP_GOALS } from "./goals.ts";
import { shopPages } from "./pages.ts";
import { fillShop, SHOP_SCHEMA } from "./stock.ts";

/** Products with reviews, a cart, and a customer who has ordered before. */
export const SHOP: SiteKind = {
  name: "shop",
  schema: SHOP_SCHEMA,
  fill: fillShop,
  routes: shopPages,
  state: ["cart", "orders", "items", "reviews"],
  goals: SHOP_GOALS,
};
