/** The desk: who answers, what each may do, and by which models. */
import { join } from 'node:path'
import { defineTeam } from 'dramatis'
import { z } from 'zod'
import { lookUpOrder, refundInto } from './shop.ts'

/** What a program gets that asks for it. A person in the chat is answered in words. */
export const Answer = z.object({
  about: z.enum(['billing', 'product', 'other']),
  refundedCents: z.number().int(),
  text: z.string(),
})

const PRICE = { input: 0.25, output: 2 } // EUR for a million tokens: put yours here

/** `folder`: of the log and the ledger. `models`: `fast`, and `spare` that answers where it has no answer. */
export const desk = (folder: string, models: Record<'fast' | 'spare', { model: string }>) =>
  defineTeam({
    agents: [
      {
        name: 'triage',
        systemPrompt: 'You are triage of a kettle shop. Hand off: money to billing, what does not work to tech.',
        canHandoffTo: ['billing', 'tech'],
      },
      {
        name: 'billing',
        systemPrompt: 'You are billing of a kettle shop. Look an order up before you speak of it, or refund it.',
        tools: [lookUpOrder, refundInto(join(folder, 'refunds.jsonl'))],
        canHandoffTo: ['tech'],
      },
      {
        name: 'tech',
        systemPrompt: 'You are tech of a kettle shop. Help with kettles. Money is for billing: hand off.',
        canHandoffTo: ['billing'],
      },
    ],
    orchestration: { strategy: 'handoff', start: 'triage' },
    models: { default: { anyOf: ['fast', 'spare'] }, ...models },
    prices: { currency: 'EUR', models: { [models.fast.model]: PRICE, [models.spare.model]: PRICE } },
    budget: {
      perRun: { money: 0.5 },
      perTenant: { each: { money: 2 }, of: { acme: { money: 50 } }, period: 'day', timeZone: 'Europe/Berlin' },
    },
    tenants: { weights: { acme: 4 }, maxConcurrentRuns: 20 },
    stateManagement: { path: join(folder, 'log') },
  })

export default desk('.cache/support-desk', { fast: { model: 'gpt-5-mini' }, spare: { model: 'gpt-5' } })
