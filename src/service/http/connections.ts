/** Connections of requests that came by Node's `http`: only there can one be cut from this side. */

const cuts = new WeakMap<Request, () => void>()

/** `cut`: ends the connection of the request at once. */
export const hasConnection = (request: Request, cut: () => void): void => void cuts.set(request, cut)

/** Cuts the connection of a request. Returns false where there is none to cut. */
export function cutConnection(request: Request): boolean {
  const cut = cuts.get(request)
  cut?.()
  return cut !== undefined
}
