// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { Rng } from "@whetstone/core";
import { rows, write } from "../rows.ts";

/** Prices are cents. Of an order's item the price is the one that was paid. */
export const SHOP_SCHEMA = `
  CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT UNIQUE, category TEXT, cents INTEGER);
  CREATE TABLE reviews (id INTEGER PRIMARY KEY, product INTEGER, author TEXT, stars INTEGER, text TEXT);
  CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, address TEXT, cents INTEGER);
  CREATE TABLE items (purchase INTEGER, product INTEGER, quantity INTEGER, cents INTEGER);
  CREATE TABLE cart (product INTEGER PRIMARY KEY, quantity INTEGER);`;

export const CATEGORIES = ["Tea", "Coffee", "Spices", "Kitchen"] as const;
export const ADDRESSES = ["Home", "Work", "Parents"] as const;
/** The customer whose account it is. */
export const CUSTOMER = "Robin Vale";
export const STATUSES = ["delivered", "shipped", "processing", "cancelled"] as const;

const GOODS: Readonly<Record<(typeof CATEGORIES)[number], readonly string[]>> = {
  Tea: ["Sencha", "Assam", "Oolong", "Rooibos", "Mate", "Darjeeling"],
  Coffee: ["Espresso", "Arabica", "Robusta", "Mocha", "Decaf", "Cold Brew"],
  Spices: ["Saffron", "Cumin", "Cardamom", "Paprika", "Cinnamon", "Turmeric"],
  Kitchen: ["Kettle", "Grinder", "Teapot", "Scale", "Filter", "Mug"],
};
const KINDS = ["Amber", "Coastal", "Northern", "Golden", "Quiet", "Village", "Winter", "Royal"];
const AUTHORS = ["Ada Finch", "Bo Larsen", "Cleo Marsh", "Dov Adler", "Esme Okoro", "Finn Reyes", "Gus Petrov"];
const OPINIONS = ["arrived late", "as described", "would buy again", "too small", "a fine gift", "broke at once"];
const ORDERS = 5;
const FIRST_ORDER = 1007;

export function fillShop(db: DatabaseSync, rng: Rng): void {
  for (const category of CATEGORIES)
    for (const good of GOODS[category]) {
      const cents = 200 + 50 * rng.integer(90);
      write(
        db,
        "INSERT INTO products (name, category, cents) VALUES (?, ?, ?)",
        `${rng.choice(KINDS)} ${good}`,
        category,
        cents,
      );
    }
  const products = rows<{ id: number; cents: number }>(db, "SELECT id, cents FROM products ORDER BY id");
  for (const { id } of products)
    for (const author of rng.shuffle(AUTHORS).slice(0, rng.integer(5))) {
      const values = [id, author, 1 + rng.integer(5), rng.choice(OPINIONS)];
      write(db, "INSERT INTO reviews (product, author, stars, text) VALUES (?, ?, ?, ?)", ...values);
    }
  // One can always be cancelled: it has a product that no other order has.
  const [waiting, ...others] = rng.shuffle(products);
  fillOrder(db, rng, { order: FIRST_ORDER, status: "processing", bought: waiting === undefined ? [] : [waiting] });
  for (let i = 1; i < ORDERS; i += 1) {
    const bought = rng.shuffle(others).slice(0, 1 + rng.integer(3));
    fillOrder(db, rng, { order: FIRST_ORDER + i * 7, status: rng.choice(STATUSES), bought });
  }
}

interface OrderToFill {
  readonly order: number;
  readonly status: (typeof STATUSES)[number];
  readonly bought: readonly { readonly id: number; readonly cents: number }[];
}

function fillOrder(db: DatabaseSync, rng: Rng, { order, status, bought }: OrderToFill): void {
  const items = bought.map(({ id, cents }) => ({ id, cents, quantity: 1 + rng.integer(3) }));
  for (const { id, cents, quantity } of items)
    write(db, "INSERT INTO items (purchase, product, quantity, cents) VALUES (?, ?, ?, ?)", order, id, quantity, cents);
  const total = items.reduce((sum, { cents, quantity }) => sum + cents * quantity, 0);
  const values = [order, status, rng.choice(ADDRESSES), total];
  write(db, "INSERT INTO orders (id, status, address, cents) VALUES (?, ?, ?, ?)", ...values);
}

/** What is in the cart becomes an order, and the cart is empty. @returns the order's number */
export function checkOut(db: DatabaseSync, address: string): number {
  const cart = rows<{ product: number; quantity: number; cents: number }>(
    db,
    "SELECT product, quantity, cents FROM cart JOIN products ON products.id = product ORDER BY product",
  );
  const total = cart.reduce((sum, { cents, quantity }) => sum + cents * quantity, 0);
  write(db, "INSERT INTO orders (status, address, cents) VALUES ('processing', ?, ?)", address, total);
  const [{ id } = { id: 0 }] = rows<{ id: number }>(db, "SELECT max(id) AS id FROM orders");
  for (const { product, quantity, cents } of cart)
    write(
      db,
      "INSERT INTO items (purchase, product, quantity, cents) VALUES (?, ?, ?, ?)",
      id,
      product,
      quantity,
      cents,
    );
  write(db, "DELETE FROM cart");
  return id;
}

export function putIntoCart(db: DatabaseSync, product: number, quantity: number): void {
  const add =
    "INSERT INTO cart VALUES (?, ?) ON CONFLICT (product) DO UPDATE SET quantity = quantity + excluded.quantity";
  write(db, add, product, quantity);
}

export function cancelOrder(db: DatabaseSync, order: number): void {
  write(db, "UPDATE orders SET status = 'cancelled' WHERE id = ? AND status = 'processing'", order);
}

export function writeReview(db: DatabaseSync, product: number, stars: number, text: string): void {
  write(db, "INSERT INTO reviews (product, author, stars, text) VALUES (?, ?, ?, ?)", product, CUSTOMER, stars, text);
}

/** "$12.50". */
export function price(cents: number): string {
  return `$${(cents / 100).toFixed(2)}`;
}
