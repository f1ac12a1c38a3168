/** Prompts of the strategy `auction`. */
import { BID_WANTED } from '../../actors/decisions/auction.ts'

export const AUCTION = {
  /** Prompt to each bidder. */
  bid: BID_WANTED,
  /** Prompt to the auctioneer. */
  choose: `Agents bid for the task below. Choose the one that gets it: answer with JSON alone,
{"winner": its name, "reason": one sentence}.

# Task

{query}

# Bids, best first

{bids}`,
} as const
