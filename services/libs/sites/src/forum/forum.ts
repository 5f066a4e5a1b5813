// SPDX-License-Identifier: Apache-2.0
import type { SiteKind } from "../site.ts";
import { FORUM_GOALS } from "./goals.ts";
import { forumPages } from "./pages.ts";
import { fillForum, FORUM_SCHEMA } from "./posts.ts";

/** Groups with posts, comments and votes, and a member who has joined some of them. */
export const FORUM: SiteKind = {
  name: "forum",
  schema: FORUM_SCHEMA,
  fill: fillForum,
  routes: forumPages,
  state: ["posts", "comments", "members"],
  goals: FORUM_GOALS,
};
