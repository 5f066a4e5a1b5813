// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { Rng } from "@whetstone/core";
import { row, rows } from "../rows.ts";
import type { GoalMaker, Move } from "../site.ts";
import { addComment, addPost, GROUPS, join, leave, MEMBER, vote } from "./posts.ts";

interface Post {
  readonly id: number;
  readonly grouping: string;
  readonly title: string;
  readonly author: string;
  readonly votes: number;
}

const WORDS = ["Well said.", "This helped me a lot.", "Which one do you use?", "Not in my experience.", "Count me in!"];
const TITLES = ["Meeting on Saturday", "Looking for a mentor", "A list of good books", "Rules of this group"];

const tellAuthor: GoalMaker = (db, rng) => {
  const grouping = rng.choice(GROUPS);
  const sql = "SELECT * FROM posts WHERE grouping = ? ORDER BY votes DESC LIMIT 2";
  const [first, second] = rows<Post>(db, sql, grouping);
  if (first === undefined || first.votes === second?.votes) return undefined;
  const moves: Move[] = [
    { click: ["link", grouping] },
    { click: ["link", "Most votes"] },
    { say: `By ${first.author}.` },
  ];
  return { text: `Who wrote the post with the most votes in ${grouping}?`, answer: first.author, moves };
};

const tellComments: GoalMaker = (db, rng) => {
  const post = anyPost(db, rng);
  const { count } = row<{ count: number }>(db, "SELECT count(*) AS count FROM comments WHERE post = ?", post.id) ?? {
    count: 0,
  };
  const moves: Move[] = [...openPost(post), { say: String(count) }];
  return {
    text: `How many comments has the post "${post.title}"? Answer with a number.`,
    answer: String(count),
    moves,
  };
};

const openNewest: GoalMaker = (db, rng) => {
  const grouping = rng.choice(GROUPS);
  const newest = row<Post>(db, "SELECT * FROM posts WHERE grouping = ? ORDER BY id DESC LIMIT 1", grouping);
  if (newest === undefined) return undefined;
  return { text: `Open the newest post of ${grouping}.`, path: `/posts/${newest.id}`, moves: openPost(newest) };
};

const comment: GoalMaker = (db, rng) => {
  const post = anyPost(db, rng);
  const words = rng.choice(WORDS);
  const moves: Move[] = [...openPost(post), { fill: ["Comment", words] }, { click: ["button", "Send comment"] }];
  const text = `Comment on the post "${post.title}" of ${post.grouping} with the words "${words}"`;
  return { text, change: (wanted) => addComment(wanted, post.id, MEMBER, words), moves };
};

const voteFor: GoalMaker = (db, rng) => {
  const post = anyPost(db, rng);
  const [name, value] = rng.choice([["up", 1] as const, ["down", -1] as const]);
  const moves: Move[] = [...openPost(post), { click: ["button", `Vote ${name}`] }];
  const text = `Vote ${name} the post "${post.title}" of ${post.grouping}.`;
  return { text, change: (wanted) => vote(wanted, post.id, value), moves };
};

const membership: GoalMaker = (db, rng) => {
  const grouping = rng.choice(GROUPS);
  const isMember = row(db, "SELECT 1 FROM members WHERE grouping = ?", grouping) !== undefined;
  const verb = isMember ? "Leave" : "Join";
  const moves: Move[] = [{ click: ["link", grouping] }, { click: ["button", `${verb} ${grouping}`] }];
  return {
    text: `${verb} the group ${grouping}.`,
    change: (wanted) => (isMember ? leave : join)(wanted, grouping),
    moves,
  };
};

const publish: GoalMaker = (_, rng) => {
  const draft = { grouping: rng.choice(GROUPS), author: MEMBER, title: rng.choice(TITLES), text: rng.choice(WORDS) };
  const moves: Move[] = [
    { click: ["link", draft.grouping] },
    { fill: ["Title", draft.title] },
    { fill: ["Text", draft.text] },
    { click: ["button", "Publish"] },
  ];
  const text = `Publish a post in ${draft.grouping} with the title "${draft.title}" and the text "${draft.text}"`;
  return { text, change: (wanted) => addPost(wanted, draft, 1), moves };
};

export const FORUM_GOALS = { tellAuthor, tellComments, openNewest, comment, voteFor, membership, publish };

function anyPost(db: DatabaseSync, rng: Rng): Post {
  return rng.choice(rows<Post>(db, "SELECT * FROM posts ORDER BY id"));
}

function openPost({ grouping, title }: Post): Move[] {
  return [{ click: ["link", grouping] }, { click: ["link", title] }];
}
