/** What customers have asked, and what the desk is expected to do. */
export const cases = [
  { asks: 'There is lime in my kettle.', tenant: 'acme', speaker: 'tech', about: 'product', refundedCents: 0 },
  { asks: 'Please refund my order A-7.', tenant: 'acme', speaker: 'billing', about: 'billing', refundedCents: 4_900 },
  { asks: 'A-7: I want my money, again.', tenant: 'acme', speaker: 'billing', about: 'billing', refundedCents: 0 },
  { asks: 'Please refund my order A-7.', tenant: 'globex', speaker: 'billing', about: 'billing', refundedCents: 0 }, // not theirs
] as const
