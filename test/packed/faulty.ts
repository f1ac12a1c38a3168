import { defineAgent, ToolFailedError } from 'dramatis'

export default defineAgent({
  receive(message) {
    if (message.content === 'fail') throw new ToolFailedError('no ink')
    return `Hello, ${message.content}`
  },
})
