/** The desk whose process is killed three times, as a new user starts it. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { folderOf } from '../durability/log-folders.ts'
import { start } from './start.ts'

t.test('a process that is killed three times loses nothing, and does nothing twice', async (t) => {
  const folder = folderOf(t)
  const { status, stdout, stderr } = start('night-desk', [], { TMPDIR: folder })
  t.equal(status, 0, stderr)
  const deaths = stderr.match(/SIGKILL: .*/g) ?? []
  t.strictSame(deaths, [
    'SIGKILL: a model was asked, and the desk had no answer yet.',
    'SIGKILL: a refund was booked, and the desk did not know it yet.',
    'SIGKILL: a question to a person was open.',
  ])
  t.match(stderr, /Process 4:\n {2}It goes on with the log\.\n {2}Order A-1043 .* A person says yes\./)
  const orders = stdout.match(/^Order .*$/gm) ?? []
  t.strictSame(orders, [
    'Order A-1041: broken, 89.00 EUR refunded.',
    'Order A-1042: unwanted, 40.50 EUR refunded.',
    'Order A-1043: broken, 1299.00 EUR refunded.',
    'Order A-1044: late, 23.00 EUR refunded.',
    'Order A-1045: broken, 67.00 EUR refunded.',
    'Order A-1046: unwanted, 143.10 EUR refunded.',
  ])
  t.match(stdout, /14 requests, each answered once/)
  t.match(stdout, /Model calls that were made: 7; \d came twice, .* The log has 7 answers,/)
  t.match(stdout, /Refunds that were booked: 6, for 6 entries in the ledger; \d came twice,/)
  t.same(readdirSync(folder), [], 'its log is gone')
})
