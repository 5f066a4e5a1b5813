// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { Rng } from "@whetstone/core";
import { row, write } from "../rows.ts";

/** Later posts have higher numbers. `mine` is the member's own vote: 1, 0 or -1, counted in `votes`. */
export const FORUM_SCHEMA = `
  CREATE TABLE posts (id INTEGER PRIMARY KEY, grouping TEXT, author TEXT, title TEXT UNIQUE, text TEXT, votes INTEGER, mine INTEGER);
  CREATE TABLE comments (id INTEGER PRIMARY KEY, post INTEGER, author TEXT, text TEXT);
  CREATE TABLE members (grouping TEXT PRIMARY KEY);`;

export const GROUPS = ["gardening", "cycling", "baking", "astronomy"] as const;
/** The member whose account it is. */
export const MEMBER = "robin";

const AUTHORS = ["ada", "bo", "cleo", "dov", "esme", "finn", "gus", "hana"];
const TOPICS: Readonly<Record<(typeof GROUPS)[number], readonly string[]>> = {
  gardening: ["tomatoes", "compost", "roses", "slugs", "seedlings"],
  cycling: ["brakes", "saddles", "rain gear", "hill climbs", "tyres"],
  baking: ["sourdough", "croissants", "rye bread", "muffins", "pie crust"],
  astronomy: ["Saturn", "eclipses", "telescopes", "meteors", "the Moon"],
};
const OPENINGS = [
  "A question about",
  "My first try with",
  "What I learned of",
  "Help with",
  "In praise of",
  "Enough of",
];
const REMARKS = ["I did the same.", "Try it in spring.", "Never again.", "Thank you for this.", "Pictures, please!"];
const POSTS_OF_A_GROUP = 6;

export function fillForum(db: DatabaseSync, rng: Rng): void {
  const drafts = GROUPS.flatMap((grouping) => titles(grouping, rng).map((title) => ({ grouping, title })));
  for (const { grouping, title } of rng.shuffle(drafts)) {
    addPost(db, { grouping, author: rng.choice(AUTHORS), title, text: rng.choice(REMARKS) }, 1 + rng.integer(90));
    const { id } = row<{ id: number }>(db, "SELECT max(id) AS id FROM posts") ?? { id: 0 };
    for (let left = rng.integer(6); left > 0; left -= 1) addComment(db, id, rng.choice(AUTHORS), rng.choice(REMARKS));
  }
  for (const grouping of rng.shuffle(GROUPS).slice(0, 2)) join(db, grouping);
}

function titles(grouping: (typeof GROUPS)[number], rng: Rng): string[] {
  const all = OPENINGS.flatMap((opening) => TOPICS[grouping].map((topic) => `${opening} ${topic}`));
  return rng.shuffle(all).slice(0, POSTS_OF_A_GROUP);
}

export interface Draft {
  readonly grouping: string;
  readonly author: string;
  readonly title: string;
  readonly text: string;
}

export function addPost(db: DatabaseSync, { grouping, author, title, text }: Draft, votes: number): void {
  const sql = "INSERT INTO posts (grouping, author, title, text, votes, mine) VALUES (?, ?, ?, ?, ?, 0)";
  write(db, sql, grouping, author, title, text, votes);
}

export function addComment(db: DatabaseSync, post: number, author: string, text: string): void {
  write(db, "INSERT INTO comments (post, author, text) VALUES (?, ?, ?)", post, author, text);
}

/** @param vote  1 or -1; the same once more takes it back */
export function vote(db: DatabaseSync, post: number, vote: number): void {
  const { mine } = row<{ mine: number }>(db, "SELECT mine FROM posts WHERE id = ?", post) ?? { mine: 0 };
  const now = mine === vote ? 0 : vote;
  write(db, "UPDATE posts SET mine = ?, votes = votes + ? WHERE id = ?", now, now - mine, post);
}

export function join(db: DatabaseSync, grouping: string): void {
  write(db, "INSERT OR IGNORE INTO members VALUES (?)", grouping);
}

export function leave(db: DatabaseSync, grouping: string): void {
  write(db, "DELETE FROM members WHERE grouping = ?", grouping);
}
