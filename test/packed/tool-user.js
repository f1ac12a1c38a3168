/** Calls each of its tools once. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, context) {
    const page = String(await context.tool('read_webpage', { url: content }))
    const answers = [
      `calculator ${await context.tool('calculator', { expression: '1 + 0.2' })}`,
      `convert ${await context.tool('convert', { value: '1', from: 'mile', to: 'km' })}`,
      `run_code ${await context.tool('run_code', { code: '6 * 7' })}`,
      `read_webpage ${page.replace(/\s+/g, ' ')}`,
    ]
    return answers.join(', ')
  },
})
