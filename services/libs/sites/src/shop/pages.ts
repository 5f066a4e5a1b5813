// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { FastifyInstance, FastifyReply } from "fastify";
import { type Html, html, page } from "../html.ts";
import { row, rows, wholeNumber } from "../rows.ts";
import { ADDRESSES, cancelOrder, CATEGORIES, checkOut, CUSTOMER, price, putIntoCart, writeReview } from "./stock.ts";

interface Product {
  readonly id: number;
  readonly name: string;
  readonly category: string;
  readonly cents: number;
}

interface Order {
  readonly id: number;
  readonly status: string;
  readonly address: string;
  readonly cents: number;
}

interface Item {
  readonly id: number;
  readonly name: string;
  readonly quantity: number;
  readonly cents: number;
}

type Form = Readonly<Record<string, string | undefined>>;

const MOST_OF_ONE = 99;
const LINKS = [
  ["/", "Shop"],
  ...CATEGORIES.map((name) => [`/category/${name}`, name] as const),
  ["/cart", "Cart"],
  ["/orders", "My orders"],
] as const;
const ORDERED_BY = { name: "name", price: "cents, name" } as const;

/** Each page is made from the database; each form is answered by the address of the page that shows what came of it. */
export function shopPages(app: FastifyInstance, db: DatabaseSync): void {
  const send = (reply: FastifyReply, title: string, body: Html): FastifyReply =>
    reply.type("text/html").send(page({ site: "Corner Shop", title, links: LINKS }, body));
  const missing = (reply: FastifyReply): FastifyReply =>
    send(reply.code(404), "Not found", html`<p>There is no such page.</p>`);
  const refuse = (reply: FastifyReply, why: string): FastifyReply =>
    send(reply.code(400), "Not done", html`<p>${why}</p>`);
  const productOf = (id: string | undefined): Product | undefined =>
    row<Product>(db, "SELECT * FROM products WHERE id = ?", Number(id));

  app.get("/", (_, reply) =>
    send(
      reply,
      "Welcome",
      html`${SEARCH}
        <p>Tea, coffee, and what goes with them.</p>`,
    ),
  );
  app.get<{ Querystring: Form }>("/search", ({ query: { q = "" } }, reply) => {
    const found = rows<Product>(
      db,
      "SELECT * FROM products WHERE instr(lower(name), lower(?)) > 0 ORDER BY name",
      q.trim(),
    );
    return send(reply, `Results for ${q}`, html`${SEARCH}${productList(found)}`);
  });
  app.get<{ Params: Form; Querystring: Form }>("/category/:name", ({ params: { name = "" }, query }, reply) => {
    if (!CATEGORIES.some((each) => each === name)) return missing(reply);
    const order = query["sort"] === "price" ? ORDERED_BY.price : ORDERED_BY.name;
    const found = rows<Product>(db, `SELECT * FROM products WHERE category = ? ORDER BY ${order}`, name);
    return send(
      reply,
      name,
      html`<p><a href="/category/${name}?sort=price">Sort by price</a></p>
        ${productList(found)}`,
    );
  });
  app.get<{ Params: Form }>("/product/:id", ({ params }, reply) => {
    const product = productOf(params["id"]);
    return product === undefined ? missing(reply) : send(reply, product.name, productPage(db, product));
  });
  app.post<{ Params: Form; Body: Form | undefined }>("/product/:id/review", ({ params, body }, reply) => {
    const product = productOf(params["id"]);
    const stars = wholeNumber(body?.["stars"], 1, 5);
    const text = body?.["text"]?.trim() ?? "";
    if (product === undefined) return missing(reply);
    if (stars === undefined || text === "") return refuse(reply, "A review needs one to five stars, and words.");
    writeReview(db, product.id, stars, text);
    return reply.redirect(`/product/${product.id}`, 303);
  });
  app.post<{ Body: Form | undefined }>("/cart", ({ body }, reply) => {
    const product = productOf(body?.["product"]);
    const quantity = wholeNumber(body?.["quantity"], 1, MOST_OF_ONE);
    if (product === undefined) return missing(reply);
    if (quantity === undefined) return refuse(reply, `The quantity is a whole number from 1 to ${MOST_OF_ONE}.`);
    putIntoCart(db, product.id, quantity);
    return reply.redirect("/cart", 303);
  });
  app.get("/cart", (_, reply) => {
    const sql = "SELECT id, name, quantity, cents FROM cart JOIN products ON id = product ORDER BY id";
    return send(reply, "Cart", cartPage(rows<Item>(db, sql)));
  });
  app.post<{ Body: Form | undefined }>("/cart/remove", ({ body }, reply) => {
    db.prepare("DELETE FROM cart WHERE product = ?").run(Number(body?.["product"]));
    return reply.redirect("/cart", 303);
  });
  app.post<{ Body: Form | undefined }>("/checkout", ({ body }, reply) => {
    const address = ADDRESSES.find((each) => each === body?.["address"]);
    if (address === undefined) return refuse(reply, "Choose an address.");
    if (row(db, "SELECT 1 FROM cart") === undefined) return refuse(reply, "The cart is empty.");
    return reply.redirect(`/orders/${checkOut(db, address)}`, 303);
  });
  app.get("/orders", (_, reply) =>
    send(reply, "My orders", ordersPage(rows<Order>(db, "SELECT * FROM orders ORDER BY id"))),
  );
  app.get<{ Params: Form }>("/orders/:id", ({ params }, reply) => {
    const order = row<Order>(db, "SELECT * FROM orders WHERE id = ?", Number(params["id"]));
    return order === undefined ? missing(reply) : send(reply, `Order ${order.id}`, orderPage(db, order));
  });
  app.post<{ Params: Form }>("/orders/:id/cancel", ({ params: { id } }, reply) => {
    cancelOrder(db, Number(id));
    return reply.redirect(`/orders/${Number(id)}`, 303);
  });
}

const SEARCH = html`<form action="/search">
  <label>Search <input name="q" /></label> <button>Search</button>
</form>`;

function productList(products: readonly Product[]): Html {
  if (products.length === 0) return html`<p>Nothing was found.</p>`;
  return html`<ul>
    ${products.map(({ id, name, cents }) => html`<li><a href="/product/${id}">${name}</a> ${price(cents)}</li>`)}
  </ul>`;
}

function productPage(db: DatabaseSync, { id, cents, category }: Product): Html {
  const reviews = rows<{ author: string; stars: number; text: string }>(
    db,
    "SELECT author, stars, text FROM reviews WHERE product = ? ORDER BY id",
    id,
  );
  return html`<p>Price: ${price(cents)}. In <a href="/category/${category}">${category}</a>.</p>
    <form method="post" action="/cart">
      <input type="hidden" name="product" value="${id}" />
      <label>Quantity <input name="quantity" value="1" /></label> <button>Add to cart</button>
    </form>
    <h2>Reviews</h2>
    <ul>
      ${reviews.map(({ author, stars, text }) => html`<li>${author} gave ${stars} of 5 stars: ${text}</li>`)}
    </ul>
    <form method="post" action="/product/${id}/review">
      <p>You write as ${CUSTOMER}.</p>
      <label
        >Stars
        <select name="stars">
          ${[1, 2, 3, 4, 5].map((n) => html`<option>${n}</option>`)}
        </select></label
      >
      <label>Review <input name="text" /></label> <button>Send review</button>
    </form>`;
}

function itemList(items: readonly Item[], more: (item: Item) => Html): Html {
  return html`<ul>
    ${items.map((item) => {
      const { id, name, quantity, cents } = item;
      return html`<li>${quantity} of <a href="/product/${id}">${name}</a> at ${price(cents)} ${more(item)}</li>`;
    })}
  </ul>`;
}

function cartPage(items: readonly Item[]): Html {
  if (items.length === 0) return html`<p>Your cart is empty.</p>`;
  const total = items.reduce((sum, { cents, quantity }) => sum + cents * quantity, 0);
  const remove = ({ id, name }: Item): Html =>
    html`<form method="post" action="/cart/remove">
      <input type="hidden" name="product" value="${id}" /><button>Remove ${name}</button>
    </form>`;
  return html`${itemList(items, remove)}
    <p>Total: ${price(total)}</p>
    <form method="post" action="/checkout">
      <label
        >Deliver to
        <select name="address">
          ${ADDRESSES.map((each) => html`<option>${each}</option>`)}
        </select></label
      >
      <button>Place order</button>
    </form>`;
}

function ordersPage(orders: readonly Order[]): Html {
  return html`<ul>
    ${orders.map(({ id, status, cents }) => html`<li><a href="/orders/${id}">Order ${id}</a>: ${status}, ${price(cents)}</li>`)}
  </ul>`;
}

function orderPage(db: DatabaseSync, { id, status, address, cents }: Order): Html {
  const sql =
    "SELECT id, name, quantity, items.cents FROM items JOIN products ON id = product WHERE purchase = ? ORDER BY id";
  const cancel =
    status === "processing"
      ? html`<form method="post" action="/orders/${id}/cancel"><button>Cancel order</button></form>`
      : "";
  return html`<p>Status: ${status}. Delivered to: ${address}. Total: ${price(cents)}.</p>
    ${itemList(rows<Item>(db, sql, id), () => html``)} ${cancel}`;
}
