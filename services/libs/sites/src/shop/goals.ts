// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { Rng } from "@whetstone/core";
import { row, rows } from "../rows.ts";
import type { Goal, GoalMaker, Move } from "../site.ts";
import { ADDRESSES, cancelOrder, CATEGORIES, checkOut, price, putIntoCart, writeReview } from "./stock.ts";

interface Product {
  readonly id: number;
  readonly name: string;
  readonly cents: number;
}

const WORDS = ["just right", "a little too strong", "my new favourite", "not worth it", "better than the last one"];

const tellPrice: GoalMaker = (db, rng) => {
  const { name, cents } = anyProduct(db, rng);
  const moves: Move[] = [...searchFor(name), { say: price(cents) }];
  return { text: `What does the ${name} cost?`, answer: price(cents), moves };
};

const tellCritic: GoalMaker = (db, rng) => {
  const { id, name } = anyProduct(db, rng);
  const sql =
    "SELECT author FROM reviews WHERE product = ? AND stars = (SELECT min(stars) FROM reviews WHERE product = ?)";
  const critics = rows<{ author: string }>(db, sql, id, id);
  const [{ author } = { author: "" }] = critics;
  if (critics.length !== 1) return undefined;
  const moves: Move[] = [...searchFor(name), { click: ["link", name] }, { say: author }];
  return { text: `Who gave the ${name} the fewest stars?`, answer: author, moves };
};

const tellTotal: GoalMaker = (db, rng) => {
  const order = rng.choice(rows<{ id: number; cents: number }>(db, "SELECT id, cents FROM orders"));
  const moves: Move[] = [{ click: ["link", "My orders"] }, { say: `It was ${price(order.cents)}.` }];
  return { text: `What did order ${order.id} cost me?`, answer: price(order.cents), moves };
};

const openCheapest: GoalMaker = (db, rng) => {
  const category = rng.choice(CATEGORIES);
  const sql = "SELECT id, name, cents FROM products WHERE category = ? ORDER BY cents LIMIT 2";
  const [first, second] = rows<Product>(db, sql, category);
  if (first === undefined || first.cents === second?.cents) return undefined;
  const moves: Move[] = [category, "Sort by price", first.name].map((name) => ({ click: ["link", name] }));
  return { text: `Open the page of the cheapest product of ${category}.`, path: `/product/${first.id}`, moves };
};

const fillCart: GoalMaker = (db, rng) => {
  const { id, name } = anyProduct(db, rng);
  const quantity = 2 + rng.integer(5);
  const text = `Put ${quantity} of the ${name} into the cart.`;
  return { text, change: (wanted) => putIntoCart(wanted, id, quantity), moves: toCart(name, quantity) };
};

const order: GoalMaker = (db, rng) => {
  const { id, name } = anyProduct(db, rng);
  const [address, quantity] = [rng.choice(ADDRESSES), 1 + rng.integer(3)];
  const change = (wanted: DatabaseSync): void => {
    putIntoCart(wanted, id, quantity);
    checkOut(wanted, address);
  };
  const moves: Move[] = [
    ...toCart(name, quantity),
    { choose: ["Deliver to", address] },
    { click: ["button", "Place order"] },
  ];
  return { text: `Order ${quantity} of the ${name}, delivered to my address "${address}".`, change, moves };
};

const cancel: GoalMaker = (db, rng) => {
  const sql = `SELECT purchase, name FROM items JOIN products ON products.id = product GROUP BY product HAVING count(*) = 1`;
  const waiting = rows<{ purchase: number; name: string }>(db, sql).filter(
    ({ purchase }) =>
      row<{ status: string }>(db, "SELECT status FROM orders WHERE id = ?", purchase)?.status === "processing",
  );
  if (waiting.length === 0) return undefined;
  const { purchase, name } = rng.choice(waiting);
  const moves: Move[] = [
    { click: ["link", "My orders"] },
    { click: ["link", `Order ${purchase}`] },
    { click: ["button", "Cancel order"] },
  ];
  return { text: `Cancel my order of the ${name}.`, change: (wanted) => cancelOrder(wanted, purchase), moves };
};

const review: GoalMaker = (db, rng) => {
  const { id, name } = anyProduct(db, rng);
  const [stars, words] = [1 + rng.integer(5), rng.choice(WORDS)];
  const moves: Move[] = [
    ...searchFor(name),
    { click: ["link", name] },
    { choose: ["Stars", String(stars)] },
    { fill: ["Review", words] },
    { click: ["button", "Send review"] },
  ];
  const text = `Review the ${name}: ${stars} of 5 stars, and the words "${words}".`;
  return { text, change: (wanted) => writeReview(wanted, id, stars, words), moves } satisfies Goal;
};

export const SHOP_GOALS = { tellPrice, tellCritic, tellTotal, openCheapest, fillCart, order, cancel, review };

function anyProduct(db: DatabaseSync, rng: Rng): Product {
  return rng.choice(rows<Product>(db, "SELECT id, name, cents FROM products ORDER BY id"));
}

function searchFor(name: string): Move[] {
  return [{ click: ["link", "Shop"] }, { fill: ["Search", name] }, { click: ["button", "Search"] }];
}

function toCart(name: string, quantity: number): Move[] {
  const ask: Move[] = [{ fill: ["Quantity", String(quantity)] }, { click: ["button", "Add to cart"] }];
  return [...searchFor(name), { click: ["link", name] }, ...ask];
}
