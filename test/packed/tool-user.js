/** Calls each of its tools once. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, { tool }) {
    const page = String(await tool('read_webpage', { url: content }))
    const answers = [
      `calculator ${await tool('calculator', { expression: '1 + 0.2' })}`,
      `convert ${await tool('convert', { value: '1', from: 'mile', to: 'km' })}`,
      `run_code ${await tool('run_code', { code: '6 * 7' })}`,
      `read_webpage ${page.replace(/\s+/g, ' ')}`,
    ]
    return answers.join(', ')
  },
})
