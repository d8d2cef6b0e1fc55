// Questions to the server's queue, one at a time for each event. While one is on its way the next is put off; whoever
// asks does so again when it ends, and so only what is wanted last is asked. Gradio's own way to put an event off sends
// what was asked first once more.

const PATIENCE = 120_000; // ms without a word, after which a question counts as lost with its connection
const underway = new Map(); // event -> {key, heard}

// The question that is on its way, as text, or null.
function questionOf(event) {
  const question = underway.get(event);
  return question && performance.now() - question.heard < PATIENCE ? question.key : null;
}

function putQuestion(event, question) {
  if (questionOf(event) !== null) return;
  underway.set(event, { key: JSON.stringify(question), heard: performance.now() });
  trigger(event, question);
}

function heardOf(event) {
  if (underway.has(event)) underway.get(event).heard = performance.now();
}

const answered = (event) => underway.delete(event);
