/** What a model server says that has no model. */
import type { Answered, Asked } from '../lib/rules-server.ts'

export default function byRules({ messages, isTyped }: Asked): Answered {
  const all = messages.map(({ content }) => content).join('\n')
  const who = /^You are (\w+)/.exec(all)?.[1] ?? ''
  const since = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
  const { role, content } = since.find((each) => each.role === 'tool') ?? since.at(-1)! // words may come meanwhile
  const last = content ?? ''
  const answered = next(who, role === 'tool', last, all.match(/\b[A-Z]-\d\b/g)?.at(-1))
  if (!isTyped || answered.call) return answered
  const about = { billing: 'billing', tech: 'product' }[who] ?? 'other'
  const refundedCents = Number(/refundedCents":(\d+)/.exec(last)?.[1] ?? 0)
  return { text: JSON.stringify({ about, refundedCents, text: answered.text }) }
}

function next(who: string, isResult: boolean, last: string, order?: string): Answered {
  const call = (name: string, input: object, text: string) => ({ text, call: { name, input } })
  const handOff = (to: string) => call('handoff', { to, task: last }, `I hand you over to ${to}.`)
  if (who !== 'billing' && /money|refund|charge/i.test(last)) return handOff('billing')
  if (who === 'triage') return /leak|lime|broken/i.test(last) ? handOff('tech') : { text: 'What is it about?' }
  if (who === 'tech') return { text: 'Boil it with a cup of vinegar, and rinse it twice.' }
  if (!order) return { text: 'Which order is it? Tell me its number.' }
  if (!isResult) return call('look_up_order', { order }, `I look at ${order}.`)
  if (last.includes('refunded')) return { text: `Order ${order} is paid back.` }
  const cents = Number(/"cents":(\d+)/.exec(last)?.[1])
  return cents ? call('refund', { order, cents }, 'I ask finance to agree.') : { text: `I am sorry: ${last}` }
}
