// Hatching: lines across a cell that has no colour.

function hatch(context, colour, gap, width) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = gap;
  const brush = tile.getContext('2d');
  brush.strokeStyle = colour;
  brush.lineWidth = width;
  brush.beginPath();
  for (const shift of [-gap, 0, gap]) { brush.moveTo(shift, gap); brush.lineTo(shift + gap, 0); }
  brush.stroke();
  return context.createPattern(tile, 'repeat');
}
