/**
 * The overflow policies of mailboxes (`communication.overflow`): each row says what becomes of a message that finds no
 * room.
 */
interface OverflowPolicy {
  /** The sender's verb waits until there is room. */
  readonly waits: boolean
  /** A message that is not taken is refused: its sender gets the error. Else only requests are answered with it. */
  readonly refuses: boolean
  /** Waiting messages with no higher priority make room: the lowest priority first, then the oldest. */
  readonly displaces: boolean
  /** Ends the sentence of the error that says why the mailbox did not take a message. */
  readonly fate: string
}

export const OVERFLOW_POLICIES = {
  block: { waits: true, refuses: false, displaces: false, fate: 'its senders wait' },
  reject: { waits: false, refuses: true, displaces: false, fate: "its overflow policy is 'reject'" },
  drop_oldest: {
    waits: false,
    refuses: false,
    displaces: true,
    fate: "its overflow policy is 'drop_oldest', so this message was dropped",
  },
  drop_newest: {
    waits: false,
    refuses: false,
    displaces: false,
    fate: "its overflow policy is 'drop_newest', so what comes now is dropped",
  },
} as const satisfies Record<string, OverflowPolicy>

export type Overflow = keyof typeof OVERFLOW_POLICIES

export const policyOf = (overflow: Overflow): OverflowPolicy => OVERFLOW_POLICIES[overflow]

/** The names of the policies, for checks of options. */
export const OVERFLOWS = Object.keys(OVERFLOW_POLICIES) as [Overflow, ...Overflow[]]
