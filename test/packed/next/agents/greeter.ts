import { defineAgent } from 'dramatis'

export default defineAgent({
  receive: (message) => `Hello, ${message.content as string}`,
})
