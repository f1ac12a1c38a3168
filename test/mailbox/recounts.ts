/** What a mailbox keeps as fields, so that each message costs no count, against what is counted. */
import type { Mailbox } from '../../src/mailbox/mailbox.ts'

/** Fields that do not say what is counted now; none when all do. */
export function miscounts<Owner>({ line, handed, pending: parked }: Mailbox<Owner>): string[] {
  const waiting = [...line.queued()]
  const given = [...handed.values()]
  const plain = given.filter(({ within }) => !within)
  const fields: [field: string, kept: unknown, counted: unknown][] = [
    ['waiting', line.waiting, waiting.length],
    ['next', line.next, waiting.find(({ within }) => !within)],
    ['nested', line.nested.length, waiting.filter(({ within }) => within).length],
    ['parked', parked.length, [...parked].length],
    ['handed', handed.size, given.length],
    ['handed first', handed.first, given[0]],
    ['handed nested', handed.nested, given.length - plain.length],
    ['handed ranked', handed.ranked, plain.filter(({ priority }) => priority !== 0).length],
  ]
  return fields.filter(([, kept, counted]) => kept !== counted).map(([field]) => field)
}
