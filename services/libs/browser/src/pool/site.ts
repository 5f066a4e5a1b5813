// SPDX-License-Identifier: Apache-2.0
export interface SiteRequest {
  readonly method: string;
  /** With what is asked: "/search?q=tea". */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
}

export interface SiteAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Pages that this process answers itself: nothing connects to them, and no other program can. */
export interface Site {
  /** "http://miniwob.test". */
  readonly origin: string;
  answer(request: SiteRequest): Promise<SiteAnswer>;
}
