// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { FastifyInstance, FastifyReply } from "fastify";
import { type Html, html, page } from "../html.ts";
import { row, rows } from "../rows.ts";
import { addComment, addPost, GROUPS, join, leave, MEMBER, vote } from "./posts.ts";

interface Post {
  readonly id: number;
  readonly grouping: string;
  readonly author: string;
  readonly title: string;
  readonly text: string;
  readonly votes: number;
}

type Form = Readonly<Record<string, string | undefined>>;

const LINKS = [["/", "Groups"], ...GROUPS.map((name) => [`/g/${name}`, name] as const)] as const;
const ORDERED_BY = { new: "id DESC", top: "votes DESC, id" } as const;
const MAX_TEXT = 2_000;

/** Each page is made from the database; each form is answered by the address of the page that shows what came of it. */
export function forumPages(app: FastifyInstance, db: DatabaseSync): void {
  const send = (reply: FastifyReply, title: string, body: Html): FastifyReply =>
    reply.type("text/html").send(page({ site: "Commons", title, links: LINKS }, body));
  const missing = (reply: FastifyReply): FastifyReply =>
    send(reply.code(404), "Not found", html`<p>There is no such page.</p>`);
  const refuse = (reply: FastifyReply, why: string): FastifyReply =>
    send(reply.code(400), "Not done", html`<p>${why}</p>`);
  const groupOf = ({ name }: Form): string | undefined => GROUPS.find((each) => each === name);
  const postOf = ({ id }: Form): Post | undefined => row<Post>(db, "SELECT * FROM posts WHERE id = ?", Number(id));

  app.get("/", (_, reply) => {
    const count = "SELECT grouping, count(*) AS posts FROM posts GROUP BY grouping ORDER BY grouping";
    return send(reply, "Groups", groupList(rows<{ grouping: string; posts: number }>(db, count)));
  });
  app.get<{ Params: Form; Querystring: Form }>("/g/:name", ({ params, query }, reply) => {
    const name = groupOf(params);
    if (name === undefined) return missing(reply);
    const order = query["sort"] === "top" ? ORDERED_BY.top : ORDERED_BY.new;
    const posts = rows<Post>(db, `SELECT * FROM posts WHERE grouping = ? ORDER BY ${order}`, name);
    return send(
      reply,
      name,
      groupPage(name, posts, row(db, "SELECT 1 FROM members WHERE grouping = ?", name) !== undefined),
    );
  });
  app.post<{ Params: Form; Body: Form | undefined }>("/g/:name/membership", ({ params, body }, reply) => {
    const name = groupOf(params);
    if (name === undefined) return missing(reply);
    if (body?.["verb"] === "leave") leave(db, name);
    else join(db, name);
    return reply.redirect(`/g/${name}`, 303);
  });
  app.post<{ Params: Form; Body: Form | undefined }>("/g/:name/posts", ({ params, body }, reply) => {
    const grouping = groupOf(params);
    const [title, text] = [textOf(body, "title"), textOf(body, "text")];
    if (grouping === undefined) return missing(reply);
    if (title === "" || text === "") return refuse(reply, "A post needs a title and a text.");
    if (row(db, "SELECT 1 FROM posts WHERE title = ?", title)) return refuse(reply, "There is a post with this title.");
    addPost(db, { grouping, author: MEMBER, title, text }, 1);
    return reply.redirect(`/g/${grouping}`, 303);
  });
  app.get<{ Params: Form }>("/posts/:id", ({ params }, reply) => {
    const post = postOf(params);
    return post === undefined ? missing(reply) : send(reply, post.title, postPage(db, post));
  });
  app.post<{ Params: Form; Body: Form | undefined }>("/posts/:id/comments", ({ params, body }, reply) => {
    const post = postOf(params);
    const text = textOf(body, "text");
    if (post === undefined) return missing(reply);
    if (text === "") return refuse(reply, "A comment needs words.");
    addComment(db, post.id, MEMBER, text);
    return reply.redirect(`/posts/${post.id}`, 303);
  });
  app.post<{ Params: Form; Body: Form | undefined }>("/posts/:id/vote", ({ params, body }, reply) => {
    const post = postOf(params);
    if (post === undefined) return missing(reply);
    vote(db, post.id, body?.["vote"] === "down" ? -1 : 1);
    return reply.redirect(`/posts/${post.id}`, 303);
  });
}

function textOf(form: Form | undefined, name: string): string {
  return (form?.[name] ?? "").trim().slice(0, MAX_TEXT);
}

function groupList(groups: readonly { readonly grouping: string; readonly posts: number }[]): Html {
  return html`<ul>
    ${groups.map(({ grouping, posts }) => html`<li>${grouping}: ${posts} posts</li>`)}
  </ul>`;
}

function groupPage(name: string, posts: readonly Post[], isMember: boolean): Html {
  return html`<form method="post" action="/g/${name}/membership">
      <input type="hidden" name="verb" value="${isMember ? "leave" : "join"}" /><button>
        ${isMember ? "Leave" : "Join"} ${name}
      </button>
    </form>
    <p><a href="/g/${name}?sort=new">Newest</a> <a href="/g/${name}?sort=top">Most votes</a></p>
    <ul>
      ${posts.map(({ id, title, author, votes }) => html`<li><a href="/posts/${id}">${title}</a> by ${author}, ${votes} votes</li>`)}
    </ul>
    <h2>New post</h2>
    <form method="post" action="/g/${name}/posts">
      <label>Title <input name="title" /></label> <label>Text <input name="text" /></label> <button>Publish</button>
    </form>`;
}

function postPage(db: DatabaseSync, { id, grouping, author, text, votes }: Post): Html {
  const sql = "SELECT author, text FROM comments WHERE post = ? ORDER BY id";
  const comments = rows<{ author: string; text: string }>(db, sql, id);
  return html`<p>By ${author} in <a href="/g/${grouping}">${grouping}</a>. ${votes} votes.</p>
    <p>${text}</p>
    <form method="post" action="/posts/${id}/vote">
      <button name="vote" value="up">Vote up</button> <button name="vote" value="down">Vote down</button>
    </form>
    <h2>Comments</h2>
    <ul>
      ${comments.map((comment) => html`<li>${comment.author}: ${comment.text}</li>`)}
    </ul>
    <form method="post" action="/posts/${id}/comments">
      <label>Comment <input name="text" /></label> <button>Send comment</button>
    </form>`;
}
