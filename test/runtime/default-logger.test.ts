import t from 'tap'
import { defaultLogger, lineLogger } from '../../src/runtime/default-logger.ts'

t.test('the default logger writes one line an event, from info up, without the fields', async (t) => {
  const lines: string[] = []
  const logger = lineLogger((line) => lines.push(line))
  logger.debug({}, 'not shown')
  logger.info({ agent: 'ann', prompt: 'hidden' }, 'started')
  logger.warn({}, 'two\nlines \u001b[31m')
  logger.error({ agent: 'ann', error: new Error('boom') }, 'failed')
  logger.error({ error: 'why' }, 'failed')
  logger.error({ error: null }, 'failed')
  t.strictSame(lines, [
    'info ann started\n',
    'warn two lines  [31m\n',
    'error ann failed: boom\n',
    'error failed: why\n',
    'error failed\n',
  ])
})

t.test('the default logger writes to stderr', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true)
  defaultLogger.info({}, 'hello')
  t.strictSame(written.args(), [['info hello\n']])
})
