import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askedPeople, called, defineEval, noAlarms, notCalled, scorer } from 'dramatis/evals'
import { desk } from './team.js'

export default defineEval({
  name: 'desk',
  team: () => desk(mkdtempSync(join(tmpdir(), 'desk-'))), // each case has a ledger of its own
  run: { caller: 'ann' },
  cases: [
    {
      id: 'refund',
      input: ['I want my money back.', 'It is order A-7.'],
      expected: 'on their way',
      answers: [{ tool: 'refund', answer: 'yes', by: 'sam' }],
      gates: [called('refund', { input: { order: 'A-7' }, times: 1 }), askedPeople(1)],
    },
    {
      id: 'not hers',
      input: 'Refund B-3, please.',
      expected: 'no order B-3',
      gates: [askedPeople(0)],
    },
    {
      id: 'the staff says no',
      input: 'Refund A-7, please.',
      expected: 'the staff has said no',
      answers: [{ tool: 'refund', answer: 'no', by: 'sam' }],
    },
    { id: 'no number', input: 'I want my money back.', expected: 'number', gates: [notCalled('refund')] },
  ],
  gates: [noAlarms()],
  scorers: [scorer('says what is expected', (run) => run.output?.includes(String(run.case.expected)) ?? false)],
})
